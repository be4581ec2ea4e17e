package api

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// metrics count what the API does.
type metrics struct {
	points  prometheus.Counter
	refused prometheus.Counter
	batches *prometheus.CounterVec
	queries *prometheus.CounterVec
	gauges  []prometheus.Collector
}

func newMetrics(s *Server) *metrics {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return &metrics{
		points: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tickmesh_api_points_total", Help: "Points written over gRPC."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tickmesh_api_series_refused_total", Help: "Series of gRPC batches whose points were left out."}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tickmesh_api_batches_total", Help: "Batches over gRPC by what became of them: ok, or the kind of error."}, []string{"outcome"}),
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tickmesh_api_queries_total", Help: "Calls of the gRPC query service by what became of them: ok, or the kind of error."}, []string{"outcome"}),
		gauges: []prometheus.Collector{
			gauge("tickmesh_api_calls", "gRPC calls that run.", func() int64 { return s.calls.Stats().Used }),
			gauge("tickmesh_api_memory_bytes", "Memory of gRPC write sessions, of their messages and batches.", s.held.Load),
		},
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return append([]prometheus.Collector{m.points, m.refused, m.batches, m.queries}, m.gauges...)
}

func (m *metrics) written(points, seriesRefused int) {
	m.points.Add(float64(points))
	m.refused.Add(float64(seriesRefused))
	m.batches.WithLabelValues("ok").Inc()
}

// failed counts a batch's error and releases it.
func (m *metrics) failed(e *tickmeshv1.Error) *tickmeshv1.Error {
	m.batches.WithLabelValues(outcomeOf(e)).Inc()
	return e
}

func (m *metrics) answered(err error) {
	if err == nil {
		m.queries.WithLabelValues("ok").Inc()
		return
	}
	m.queries.WithLabelValues(outcomeOf(messageOf(err))).Inc()
}

func outcomeOf(e *tickmeshv1.Error) string {
	return strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "ERROR_KIND_"))
}
