package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/settings"
)

func TestReadiness(t *testing.T) {
	var health error
	r := &readiness{health: func() error { return health }}
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.serve(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		serving bool
		health  error
		status  int
		body    string
	}{
		{false, nil, 503, "not ready: starting or stopping\n"},
		{true, nil, 200, "ready\n"},
		{true, errors.New("the disk is full"), 503, "not ready: the disk is full\n"},
		{true, nil, 200, "ready\n"},
		{false, errors.New("the disk is full"), 503, "not ready: starting or stopping\n"},
	} {
		r.set(step.serving)
		health = step.health
		if status, body := ask(); status != step.status || body != step.body {
			t.Errorf("%+v: %d %q", step, status, body)
		}
	}
}

// settlerFunc counts what is asked of a settler.
type settlerFunc func() error

func (f settlerFunc) Settle(context.Context) error { return f() }

func TestMux(t *testing.T) {
	queries := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, profiles := range []bool{false, true} {
		s := frontSettings{Operation: settings.Operation{Pprof: profiles, Admin: profiles}}
		settled := 0
		m := access.Open(s.newMux(queries, newRegistry(), &readiness{health: func() error { return nil }}, settlerFunc(func() error {
			settled++
			return nil
		})))
		m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/admin/settle", nil))
		if (settled == 1) != profiles {
			t.Errorf("admin %v: settled %d times", profiles, settled)
		}
		profileStatus := http.StatusTeapot
		if profiles {
			profileStatus = http.StatusOK
		}
		for path, want := range map[string]int{
			"/": http.StatusTeapot, "/metrics": 200, "/healthz": 200, "/readyz": 503, "/api/query": http.StatusTeapot, "/nothing": http.StatusTeapot,
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

func TestStats(t *testing.T) {
	r := newRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_points_total", Help: "."}, []string{"port"})
	counter.WithLabelValues("http").Add(3)
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "a_seconds", Help: "."})
	histogram.Observe(0.5)
	histogram.Observe(1)
	r.MustRegister(counter, histogram)
	got := map[string]float64{}
	for _, s := range r.stats(access.With(t.Context(), access.Anyone())) {
		if s.TimeMs <= 0 {
			t.Errorf("%+v", s)
		}
		key := s.Metric
		if port := s.Tags["port"]; port != "" {
			key += " " + port
		}
		got[key] = s.Value
	}
	for key, want := range map[string]float64{"a.points.total http": 3, "a.seconds.count": 2, "a.seconds.sum": 1.5, "tickmesh.build.info": 1} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s: %v, %v; want %v", key, v, ok, want)
		}
	}
}
