package process

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/access"
)

// Readiness reports whether the server takes writes and answers queries.
type Readiness struct {
	Health func() error // why no writes are taken, or nil
	// What else a person should know; it does not make the process unready, and names nodes, so
	// those hear it who may read everything. May be nil.
	Details func() []string
	serving atomic.Bool
}

// Set records whether the process serves.
func (r *Readiness) Set(serving bool) { r.serving.Store(serving) }

func (r *Readiness) serve(w http.ResponseWriter, request *http.Request) {
	if !r.serving.Load() {
		http.Error(w, "not ready: starting or stopping", http.StatusServiceUnavailable)
		return
	}
	if err := r.Health(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
	if r.Details != nil && access.Of(request.Context()).May(access.Everything, access.Read) {
		for _, line := range r.Details() {
			fmt.Fprintln(w, line)
		}
	}
}
