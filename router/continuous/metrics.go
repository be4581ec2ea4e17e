package continuous

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of a Service.
type metrics struct {
	elected, queries, late prometheus.Gauge
	runs                   *prometheus.CounterVec // by outcome
	rows, givenUp          prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	name := func(name string) string { return "tickmesh_continuous_queries_" + name }
	gauge := func(n, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name(n), Help: help})
	}
	counter := func(n, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name(n), Help: help})
	}
	m := &metrics{
		elected: gauge("running", "1 while this process runs continuous queries: in a cluster one router does."),
		queries: gauge("known", "Continuous queries, where they are run."),
		late:    gauge("late_seconds", "How late the latest query is that waits for a place."),
		runs:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("runs_total"), Help: "Runs by what became of them."}, []string{"outcome"}),
		rows:    counter("rows_total", "Rows written."),
		givenUp: counter("given_up_total", "Times that windows were left out, as a query had failed for an hour."),
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.runs.WithLabelValues(outcome)
	}
	if registerer != nil {
		registerer.MustRegister(m.elected, m.queries, m.late, m.runs, m.rows, m.givenUp)
	}
	return m
}
