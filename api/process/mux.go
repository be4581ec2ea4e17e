package process

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/endpoint"
)

// MuxOptions say what the HTTP port of a process answers.
type MuxOptions struct {
	Own       http.Handler // of what only this process answers, and of unknown paths
	Registry  *Registry
	Ready     *Readiness
	Compactor Compactor // nil: there is nothing to compact
	Admin     bool      // POST /admin/settle
	Pprof     bool      // Go's profiles
}

// NewMux routes what every process answers: metrics, health, profiles and administration.
func NewMux(o MuxOptions) *endpoint.Mux {
	m := NewWatchMux(o.Registry, o.Ready)
	m.Handle("/api/", o.Own)
	if o.Admin && o.Compactor != nil {
		m.HandleFunc("POST /admin/settle", onlyAdmins(func(w http.ResponseWriter, r *http.Request) {
			if err := o.Compactor.CompactAll(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintln(w, "settled")
		}))
	}
	if o.Pprof {
		for path, handler := range map[string]http.HandlerFunc{
			"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
			"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		} {
			m.HandleFunc(path, onlyAdmins(handler))
		}
	}
	m.Handle("/", o.Own)
	return m
}

// NewWatchMux routes metrics and health, and nothing else.
func NewWatchMux(registry *Registry, ready *Readiness) *endpoint.Mux {
	m := &endpoint.Mux{}
	// With authentication on, nobody gets here who is not known; see api/auth.
	m.HandleFunc("GET /metrics", registry.ServeMetrics)
	for _, path := range []string{"/healthz", "/-/healthy"} { // see access.IsProbePath
		m.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
	for _, path := range []string{"/readyz", "/-/ready"} {
		m.HandleFunc("GET "+path, ready.serve)
	}
	return m
}

// onlyAdmins passes only requests of those who may change the whole to a handler.
func onlyAdmins(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		audit.Of(r.Context()).Did(audit.Deed{Do: "administration"}, nil)
		if err := access.Check(r.Context(), access.Everything, access.Admin); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		handler(w, r)
	}
}

// Compactor brings its data into the form that is smallest and fastest to read.
type Compactor interface {
	CompactAll(ctx context.Context) error
}
