package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/process"
)

func TestStats(t *testing.T) {
	r := process.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_points_total", Help: "."}, []string{"port"})
	counter.WithLabelValues("http").Add(3)
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "a_seconds", Help: "."})
	histogram.Observe(0.5)
	histogram.Observe(1)
	r.MustRegister(counter, histogram)
	got := map[string]float64{}
	for _, s := range statsOf(access.With(t.Context(), access.Anyone()), r) {
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
