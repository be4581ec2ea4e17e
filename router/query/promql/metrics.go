package promql

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the handler counts beside the ledger.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	partial  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	const namespace, subsystem = "tickmesh", "promql"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests answered, by endpoint and status; 499 is a client that went away."}, []string{"endpoint", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "request_seconds",
			Help: "Time from a request's arrival to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"endpoint"}),
		partial: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "answers_partial_total",
			Help: "Answers without shards that nobody answered for, to requests that put up with it."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds, m.partial)
	}
	return m
}

func (m *metrics) observe(endpoint string, status int, took time.Duration) {
	m.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(endpoint).Observe(took.Seconds())
}
