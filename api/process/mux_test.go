package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
)

// compactorFunc counts what is asked of a Compactor.
type compactorFunc func() error

func (f compactorFunc) CompactAll(context.Context) error { return f() }

func TestMux(t *testing.T) {
	queries := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, profiles := range []bool{false, true} {
		compactions := 0
		m := access.Open(NewMux(MuxOptions{
			Own: queries, Registry: NewRegistry(), Ready: &Readiness{Health: func() error { return nil }}, Admin: profiles, Pprof: profiles,
			Compactor: compactorFunc(func() error {
				compactions++
				return nil
			}),
		}))
		m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/admin/settle", nil))
		if (compactions == 1) != profiles {
			t.Errorf("admin %v: compacted %d times", profiles, compactions)
		}
		profileStatus := http.StatusTeapot
		if profiles {
			profileStatus = http.StatusOK
		}
		for path, want := range map[string]int{
			"/": http.StatusTeapot, "/metrics": 200, "/healthz": 200, "/readyz": 503, "/-/healthy": 200, "/-/ready": 503, "/-/reload": http.StatusTeapot, "/api/query": http.StatusTeapot, "/nothing": http.StatusTeapot,
			"/debug/pprof/": profileStatus, "/debug/pprof/cmdline": profileStatus, "/debug/pprof/heap": profileStatus, "/debug/pprof/symbol": profileStatus,
		} {
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("profiles %v: %s answers %d, want %d", profiles, path, w.Code, want)
			}
		}
	}
}
