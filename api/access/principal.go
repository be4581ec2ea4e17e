package access

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/audit"
)

// Right is what may be done with a database. Each right includes the ones before it.
type Right uint8

// The rights.
const (
	Read  Right = iota + 1 // query
	Write                  // add samples
	Admin                  // delete samples, make and drop databases, change the cluster
)

// String returns the right as files and messages name it.
func (r Right) String() string {
	switch r {
	case 0:
		return "none"
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("right %d", uint8(r))
}

// ParseRight returns the right of a word, of which none is 0, and whether it is one.
func ParseRight(word string) (Right, bool) {
	for r := range Admin + 1 {
		if word == r.String() {
			return r, true
		}
	}
	return 0, false
}

// Principal is somebody who was authenticated. Safe for concurrent use.
type Principal interface {
	// Name is for people: in logs, among slow queries.
	Name() string
	// May reports whether the principal has a right on a database. The default database
	// is "", as everywhere inside.
	May(database string, right Right) bool
}

type anyone struct{}

// Anyone returns the principal of every caller of a server without authentication: it may
// do everything. What lets requests in sets it by name, as no principal means nobody.
func Anyone() Principal { return anyone{} }

func (anyone) Name() string           { return "" }
func (anyone) May(string, Right) bool { return true }

type nobody struct{}

func (nobody) Name() string           { return "" }
func (nobody) May(string, Right) bool { return false }

type principalKey struct{}

// With returns a context that carries who calls.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Of returns who calls. A context that does not tell is of nobody, who may do nothing: a
// handler that is reached without a check of the caller refuses, whoever forgot the check.
func Of(ctx context.Context) Principal {
	if p, ok := ctx.Value(principalKey{}).(Principal); ok {
		return p
	}
	return nobody{}
}

// Known reports whether the caller is one particular user: authentication is on.
func Known(ctx context.Context) bool {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if c, is := p.(*confined); is {
		p = c.Principal
	}
	return ok && p != Anyone()
}

// Open returns a handler for servers without authentication: callers of whom nothing is
// known are Anyone.
func Open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Value(principalKey{}).(Principal); !ok {
			r = r.WithContext(With(r.Context(), Anyone()))
		}
		next.ServeHTTP(w, r)
	})
}

// DeniedError reports that a principal lacks a right. Over HTTP it is 403.
type DeniedError struct {
	Principal string // "": nobody
	Database  string // "" is the default one
	Right     Right
	Confined  bool // the request is for another database
}

func (e *DeniedError) Error() string {
	if e.Confined {
		return fmt.Sprintf("%s says that this request is for another database than %q, or for none: name it there", DatabaseHeader, Display(e.Database))
	}
	if e.Principal == "" {
		return fmt.Sprintf("nobody is signed in, and database %q needs the %s right: sign in", Display(e.Database), e.Right)
	}
	return fmt.Sprintf("user %q has no %s right on database %q: ask an administrator for it", e.Principal, e.Right, Display(e.Database))
}

// Check returns a *DeniedError when the caller has not the right on the database, and notes it
// for the audit log: it is for requests that are refused then. What only chooses what to show
// asks Of(ctx).May.
func Check(ctx context.Context, database string, right Right) error {
	err := May(Of(ctx), database, right)
	if err != nil {
		r := audit.Of(ctx)
		r.In(Display(database))
		r.Refuse(err)
	}
	return err
}

// May returns a *DeniedError when a principal has not the right on the database.
func May(p Principal, database string, right Right) error {
	if p.May(database, right) {
		return nil
	}
	e := &DeniedError{Principal: p.Name(), Database: database, Right: right}
	if c, ok := p.(*confined); ok {
		e.Confined = c.Principal.May(database, right)
	}
	return e
}
