package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tickmesh/tickmesh/api/audit"
)

// DatabaseHeader names the header that holds the database in dialects that have no place
// for it: the header of Cortex, Mimir and Loki. Over gRPC it is metadata of this name.
const DatabaseHeader = "X-Scope-OrgID"

// defaultName is how people name the default database, which is "" inside.
const defaultName = "default"

// ErrDatabase is the kind of errors of requests that do not say which database they mean.
// Over HTTP it is 400.
var ErrDatabase = errors.New("which database is meant is not clear")

// ErrDatabaseHeader is the ErrDatabase of a request without DatabaseHeader where only that counts.
var ErrDatabaseHeader = fmt.Errorf("%w: name it by the header %s, which alone counts here", ErrDatabase, DatabaseHeader)

// Canonical returns the database of a name: "default" is the default one, which is "".
func Canonical(name string) string {
	if name == defaultName {
		return ""
	}
	return name
}

// Display returns the name of a database for people.
func Display(database string) string {
	if database == "" {
		return defaultName
	}
	return database
}

// Place is what is known of a request's database before its parameters are read.
type Place struct {
	Path     string // the database of a path /db/NAME/…
	Prefixed bool   // the path names one
	// HeaderOnly: the database is Tenant, which DatabaseHeader or the rights of the caller name,
	// and nothing else may name another. Tenanted reports whether there is one.
	HeaderOnly, Tenanted bool
	Tenant               string
}

type placeKey struct{}

// WithPlace returns a context that carries what is known of a request's database.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Disagreement returns the ErrDatabase of a request in which two places name different
// databases. A proxy or a person that checks one place must not be passed by the other.
func Disagreement(first, firstName, second, secondName string) error {
	return fmt.Errorf("%w: %s says %q and %s says %q; name one", ErrDatabase,
		first, Display(Canonical(firstName)), second, Display(Canonical(secondName)))
}

// choice is the one database that all places of a request name.
type choice struct {
	name, by string
	err      error
}

func (c *choice) take(by, name string) {
	name = Canonical(name)
	switch {
	case c.by == "":
		c.name, c.by = name, by
	case c.name != name && c.err == nil:
		c.err = Disagreement(c.by, c.name, by, name)
	}
}

// Database returns the database that a request means, in the canonical form: what the
// parameter db of the form (which may be nil) and of the URL, the path and DatabaseHeader
// name, and the default one where none of them does. Errors: ErrDatabase where they differ,
// or where only the header counts and there is none.
func Database(r *http.Request, form url.Values) (string, error) {
	p, _ := r.Context().Value(placeKey{}).(Place)
	var c choice
	if p.HeaderOnly {
		if !p.Tenanted {
			return "", ErrDatabaseHeader
		}
		c.take("the header "+DatabaseHeader+", or the user's only database", p.Tenant)
	}
	for _, name := range form["db"] {
		c.take("the parameter db", name)
	}
	for _, name := range r.URL.Query()["db"] {
		c.take("the parameter db of the URL", name)
	}
	if p.Prefixed {
		c.take("the path", p.Path)
	}
	for _, name := range r.Header.Values(DatabaseHeader) {
		if name != "" {
			c.take("the header "+DatabaseHeader, name)
		}
	}
	if c.err == nil {
		audit.Of(r.Context()).In(Display(c.name))
	}
	return c.name, c.err
}
