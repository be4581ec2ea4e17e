package shell

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what every language counts, below its name.
type metrics struct {
	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	partial    prometheus.Counter
	byEndpoint bool
}

// opts names a metric of a language.
func opts(dialect, name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "tickmesh", Subsystem: dialect, Name: name, Help: help}
}

// NewCounter returns a counter of one language, registered.
func NewCounter(registerer prometheus.Registerer, dialect, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts(opts(dialect, name, help)))
	if registerer != nil {
		registerer.MustRegister(c)
	}
	return c
}

func newMetrics(dialect string, byEndpoint bool, registerer prometheus.Registerer) *metrics {
	var endpoint []string
	if byEndpoint {
		endpoint = []string{"endpoint"}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(opts(dialect, "requests_total",
			"Requests answered, by status; 499 is a client that went away. Errors of single InfluxQL statements are within status 200.")), append(endpoint, "status")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tickmesh", Subsystem: dialect, Name: "request_seconds",
			Help: "Time from a request's arrival to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, endpoint),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts(opts(dialect, "requests_in_flight", "Requests being answered."))),
		partial: NewCounter(registerer, dialect, "answers_partial_total",
			"Answers without shards that nobody answered for, to requests that put up with it."),
		byEndpoint: byEndpoint,
	}
	if !byEndpoint {
		m.seconds.WithLabelValues() // is told of before the first request, too
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds, m.inFlight)
	}
	return m
}

// Begin counts a request in flight. The function that it returns counts the answer to it.
func (s *Shell) Begin() (ended func(endpoint string, status int)) {
	m, began := s.metrics, time.Now()
	m.inFlight.Inc()
	return func(endpoint string, status int) {
		m.inFlight.Dec()
		labels := []string{strconv.Itoa(status)}
		if m.byEndpoint {
			labels = []string{endpoint, labels[0]}
		}
		m.requests.WithLabelValues(labels...).Inc()
		m.seconds.WithLabelValues(labels[:len(labels)-1]...).Observe(time.Since(began).Seconds())
	}
}
