package access

import (
	"context"
	"fmt"
)

// Right is what may be done with a database. Each right includes the ones before it.
type Right uint8

// The rights.
const (
	Read  Right = iota + 1 // query
	Write                  // add samples
	Admin                  // delete samples, make and drop databases, change the cluster
)

// String gives the right as files and messages name it.
func (r Right) String() string {
	switch r {
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("right %d", uint8(r))
}

// Principal is somebody who was authenticated. Safe for concurrent use.
type Principal interface {
	// Name is for people: in logs, among slow queries.
	Name() string
	// May says whether the principal has a right on a database. The default database
	// is "", as everywhere inside.
	May(database string, right Right) bool
}

type anyone struct{}

// Anyone may do everything: the principal of every caller while authentication is off.
func Anyone() Principal { return anyone{} }

func (anyone) Name() string           { return "" }
func (anyone) May(string, Right) bool { return true }

type principalKey struct{}

// With gives a context that carries who calls.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Of gives who calls; Anyone when the context does not say.
func Of(ctx context.Context) Principal {
	if p, ok := ctx.Value(principalKey{}).(Principal); ok {
		return p
	}
	return Anyone()
}

// Known says whether it is known who calls: authentication is on.
func Known(ctx context.Context) bool {
	_, ok := ctx.Value(principalKey{}).(Principal)
	return ok
}

// DeniedError says that a principal lacks a right. Over HTTP it is 403.
type DeniedError struct {
	Principal string
	Database  string // "" is the default one
	Right     Right
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("user %q has no %s right on database %q: ask an administrator for it", e.Principal, e.Right, Display(e.Database))
}

// Check gives a *DeniedError when the caller has not the right on the database.
func Check(ctx context.Context, database string, right Right) error {
	p := Of(ctx)
	if p.May(database, right) {
		return nil
	}
	return &DeniedError{Principal: p.Name(), Database: database, Right: right}
}
