package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/endpoint"
)

// mux routes what is not a write.
type mux = endpoint.Mux

func (s *frontSettings) newMux(queries http.Handler, r *registry, ready *readiness, settler settler) *mux {
	m := &endpoint.Mux{}
	m.Handle("/api/", queries)
	// With authentication on, nobody gets here who is not known; see api/auth.
	m.HandleFunc("GET /metrics", r.serve)
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	m.HandleFunc("GET /readyz", ready.serve)
	if s.Admin && settler != nil {
		m.HandleFunc("POST /admin/settle", onlyAdmins(func(w http.ResponseWriter, r *http.Request) {
			if err := settler.Settle(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintln(w, "settled")
		}))
	}
	if s.Pprof {
		for path, handler := range map[string]http.HandlerFunc{
			"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
			"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		} {
			m.HandleFunc(path, onlyAdmins(handler))
		}
	}
	m.Handle("/", queries) // answers 404 in OpenTSDB's shape
	return m
}

// onlyAdmins lets those call a handler who may change the whole.
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

// settler brings its data into the form that is smallest and fastest to read.
type settler interface {
	Settle(ctx context.Context) error
}

// readiness says whether the server takes writes and answers queries.
type readiness struct {
	health func() error // why no writes are taken, or nil
	// What else a person should know; it does not make the process unready, and names nodes, so
	// those hear it who may read everything. May be nil.
	details func() []string
	serving atomic.Bool
}

func (r *readiness) set(serving bool) { r.serving.Store(serving) }

func (r *readiness) serve(w http.ResponseWriter, request *http.Request) {
	if !r.serving.Load() {
		http.Error(w, "not ready: starting or stopping", http.StatusServiceUnavailable)
		return
	}
	if err := r.health(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
	if r.details != nil && access.Of(request.Context()).May(access.Everything, access.Read) {
		for _, line := range r.details() {
			fmt.Fprintln(w, line)
		}
	}
}
