package admission

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what admission control counts.
type metrics struct {
	ended   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	slow    *prometheus.CounterVec
	samples *prometheus.CounterVec
	refused *prometheus.CounterVec
}

func newMetrics(l *Controller, registerer prometheus.Registerer) *metrics {
	name := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tickmesh", Subsystem: "query", Name: name, Help: help}
	}
	dialect := []string{"dialect"}
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts(name("ended_total",
			"Queries that have ended, by dialect and outcome: ok, limit, timeout, canceled (by the client or an administrator), busy or error.")), []string{"dialect", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tickmesh", Subsystem: "query", Name: "seconds",
			Help: "Time of a query, from its admission to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, dialect),
		slow:    prometheus.NewCounterVec(prometheus.CounterOpts(name("slow_total", "Queries that took longer than --query-slow.")), dialect),
		samples: prometheus.NewCounterVec(prometheus.CounterOpts(name("samples_read_total", "Samples and windows that scans have visited.")), dialect),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts(name("refused_total", "Queries that were not let in, or ended, because too much was going on.")), []string{"cause"}),
	}
	gauge := func(n, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(name(n, help)), value)
	}
	if registerer != nil {
		registerer.MustRegister(m.ended, m.seconds, m.slow, m.samples, m.refused,
			gauge("running", "Queries that are running.", func() float64 { r, _ := l.places.counts(); return float64(r) }),
			gauge("waiting", "Queries that wait for a place.", func() float64 { _, w := l.places.counts(); return float64(w) }),
			gauge("memory_bytes", "Memory that running queries are charged for.", func() float64 { return float64(l.memory.Stats().Used) }),
			gauge("memory_waiting", "Scans that wait for memory that other queries hold.", func() float64 { return float64(l.memory.Stats().Waiting) }))
	}
	return m
}
