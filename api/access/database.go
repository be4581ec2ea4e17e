package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
	// Joined: a name may be of several databases, with DatabaseJoint between them.
	Joined bool
}

// DatabaseJoint stands between the names of several databases, where these may be named at once.
const DatabaseJoint = "|"

// databasesJoinedMax bounds the databases that are named at once.
const databasesJoinedMax = 64

// ErrDatabases is the ErrDatabase of a request for several databases that is none for reading by PromQL.
var ErrDatabases = fmt.Errorf("%w: several are named, which only reading by PromQL takes: name one", ErrDatabase)

// Joined returns the databases of names with DatabaseJoint between them, canonical, sorted, and each once. Errors: ErrDatabase.
func Joined(names string) ([]string, error) {
	if strings.Count(names, DatabaseJoint) >= databasesJoinedMax {
		return nil, fmt.Errorf("%w: more than %d are named", ErrDatabase, databasesJoinedMax)
	}
	var all []string
	for name := range strings.SplitSeq(names, DatabaseJoint) {
		if name == "" {
			return nil, fmt.Errorf("%w: a name in %q is empty", ErrDatabase, names)
		}
		all = append(all, Canonical(name))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// IsJoined reports whether a name is of several databases.
func (p *Place) IsJoined(name string) bool { return p.Joined && strings.Contains(name, DatabaseJoint) }

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
// or where only the header counts and there is none; ErrDatabases.
func Database(r *http.Request, form url.Values) (string, error) {
	p, name, err := named(r, form)
	switch {
	case err != nil:
		return name, err
	case p.IsJoined(name):
		return name, ErrDatabases
	}
	audit.Of(r.Context()).In(Display(name))
	return name, nil
}

// Databases is Database for requests that may mean several.
func Databases(r *http.Request, form url.Values) ([]string, error) {
	p, name, err := named(r, form)
	all := []string{name}
	if err == nil && p.IsJoined(name) {
		all, err = Joined(name)
	}
	if err != nil {
		return nil, err
	}
	shown := make([]string, len(all))
	for i, database := range all {
		shown[i] = Display(database)
	}
	audit.Of(r.Context()).In(strings.Join(shown, DatabaseJoint))
	return all, nil
}

// named returns what all places of a request name, canonical.
func named(r *http.Request, form url.Values) (p Place, name string, err error) {
	p, _ = r.Context().Value(placeKey{}).(Place)
	var c choice
	if p.HeaderOnly {
		if !p.Tenanted {
			return p, "", ErrDatabaseHeader
		}
		c.take("the header "+DatabaseHeader+", or the user's only database", p.Tenant)
	}
	for _, name := range form["db"] {
		c.take("the parameter db", name)
	}
	eachParameter(r.URL.RawQuery, "db", func(name string) { c.take("the parameter db of the URL", name) })
	if p.Prefixed {
		c.take("the path", p.Path)
	}
	for _, name := range r.Header.Values(DatabaseHeader) {
		if name != "" {
			c.take("the header "+DatabaseHeader, name)
		}
	}
	return p, c.name, c.err
}
