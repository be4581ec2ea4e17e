package opentsdb

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the handler counts.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	points   prometheus.Counter
	cut      prometheus.Counter
	partial  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	const namespace, subsystem = "tickmesh", "opentsdb"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests answered, by endpoint and status; 499 is a client that went away."}, []string{"endpoint", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "request_seconds",
			Help: "Time from a request's arrival to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"endpoint"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_in_flight",
			Help: "Requests being answered."}),
		points: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "points_answered_total",
			Help: "Points written into answers."}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "answers_cut_total",
			Help: "Answers that an error ended after they had begun."}),
		partial: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "answers_partial_total",
			Help: "Answers without shards that nobody answered for, to requests that put up with it."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds, m.inFlight, m.points, m.cut, m.partial)
	}
	return m
}

func (m *metrics) observe(endpoint string, status int, took time.Duration) {
	m.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(endpoint).Observe(took.Seconds())
}
