package access

import (
	"context"
	"net/http"
	"net/url"
)

// DatabaseHeader names the header that holds the database in dialects that have no place
// for it: the header of Cortex, Mimir and Loki.
const DatabaseHeader = "X-Scope-OrgID"

// defaultName is how people name the default database, which is "" inside.
const defaultName = "default"

// Canonical gives the database of a name: "default" is the default one, which is "".
func Canonical(name string) string {
	if name == defaultName {
		return ""
	}
	return name
}

// Display gives the name of a database for people.
func Display(database string) string {
	if database == "" {
		return defaultName
	}
	return database
}

type databaseKey struct{}

// WithDatabase gives a context that carries the database of a path /db/NAME/…
func WithDatabase(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, databaseKey{}, name)
}

// Database gives the database that a request means, in the canonical form: the parameter
// db of the form (which may be nil) or of the URL, else that of the path, else that of
// DatabaseHeader, else the default one.
func Database(r *http.Request, form url.Values) string {
	if form.Has("db") {
		return Canonical(form.Get("db"))
	}
	if p := r.URL.Query(); p.Has("db") {
		return Canonical(p.Get("db"))
	}
	if name, ok := r.Context().Value(databaseKey{}).(string); ok {
		return Canonical(name)
	}
	return Canonical(r.Header.Get(DatabaseHeader))
}
