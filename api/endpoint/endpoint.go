// Package endpoint makes HTTP routing a table that can be read: whatever routes requests
// lists the patterns that it was given, so that a test can ask of a whole server which
// paths it answers, and fails when one of them was forgotten.
package endpoint

import (
	"net/http"
	"slices"
)

// Lister is a handler that answers several paths and lists them.
type Lister interface {
	// Endpoints returns the patterns of all that is answered, as http.ServeMux writes them:
	// "GET /metrics", or "/query" for all methods.
	Endpoints() []string
}

// Mux is an http.ServeMux that lists what was registered with it. The zero Mux is ready to
// be used. Registering is not safe for concurrent use.
type Mux struct {
	mux      http.ServeMux
	patterns []string
	direct   direct
}

// Handle registers a handler, as http.ServeMux.Handle does. If the handler is a Lister, its
// endpoints are listed in place of the pattern.
func (m *Mux) Handle(pattern string, handler http.Handler) {
	m.mux.Handle(pattern, handler)
	m.direct.add(pattern, handler)
	if l, ok := handler.(Lister); ok {
		m.patterns = append(m.patterns, l.Endpoints()...)
		return
	}
	m.patterns = append(m.patterns, pattern)
}

// HandleFunc registers a function, as http.ServeMux.HandleFunc does.
func (m *Mux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.mux.HandleFunc(pattern, handler)
	m.direct.add(pattern, http.HandlerFunc(handler))
	m.patterns = append(m.patterns, pattern)
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := m.direct.find(r); handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	m.mux.ServeHTTP(w, r)
}

// Endpoints implements Lister: sorted, each pattern once.
func (m *Mux) Endpoints() []string { return Sorted(m.patterns) }

// Sorted returns the patterns in order, each once.
func Sorted(patterns []string) []string {
	sorted := slices.Clone(patterns)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Patterns returns the patterns of one path that is answered for some methods.
func Patterns(methods []string, path string) []string {
	patterns := make([]string, len(methods))
	for i, method := range methods {
		patterns[i] = method + " " + path
	}
	return patterns
}
