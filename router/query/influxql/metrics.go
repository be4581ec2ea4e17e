package influxql

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the handler counts.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	inFlight prometheus.Gauge
	rows     prometheus.Counter
	partial  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	const namespace, subsystem = "tickmesh", "influxql"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests answered, by status; errors of single statements are within status 200."}, []string{"status"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "request_seconds",
			Help: "Time from a request's arrival to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_in_flight",
			Help: "Requests being answered."}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "rows_answered_total",
			Help: "Rows written into answers."}),
		partial: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "answers_partial_total",
			Help: "Answers without shards that nobody answered for, to requests that put up with it."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds, m.inFlight, m.rows, m.partial)
	}
	return m
}

func (m *metrics) observe(status int, took time.Duration) {
	m.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	m.seconds.Observe(took.Seconds())
}
