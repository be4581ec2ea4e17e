package mqtt

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the figures of the connections of one name. They outlive changes of the file.
type counts struct {
	connected                                       atomic.Bool
	subscriptionsRefused                            atomic.Int64
	inFlight                                        atomic.Int64
	oldestMs                                        atomic.Int64 // when the oldest message at work came; 0: none is
	taken, retained                                 atomic.Int64
	dropped                                         atomic.Int64 // of QoS 0
	refused                                         [reasons]atomic.Int64
	written, refusedSamples                         atomic.Int64
	retries, connects, failedConnects, disconnected atomic.Int64
}

type descriptions struct {
	connected, subscriptionsRefused, inFlight, lag, messages, refused, samples, retries, connects, disconnects *prometheus.Desc
}

func newDescriptions() descriptions {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tickmesh_mqtt_"+name, help, append([]string{"connection"}, labels...), nil)
	}
	return descriptions{
		connected:            describe("connected", "1 while the connection to the broker stands."),
		subscriptionsRefused: describe("subscriptions_refused", "Subscriptions that the broker does not allow, of the last connection."),
		inFlight:             describe("in_flight_messages", "Messages that have come and are not done with."),
		lag:                  describe("lag_seconds", "Age of the oldest message that is being written, since it came; 0: none is."),
		messages:             describe("messages_total", "Messages by what became of them: taken ones hold samples, retained ones were not asked for, dropped ones had QoS 0 and no room.", "outcome"),
		refused:              describe("refused_messages_total", "Messages of which nothing is written, by the reason; they are acknowledged.", "reason"),
		samples:              describe("samples_total", "Samples of taken messages, by what became of them.", "outcome"),
		retries:              describe("write_retries_total", "Writes that failed and were tried again; their messages are not acknowledged."),
		connects:             describe("connects_total", "Tries to connect, by what became of them.", "outcome"),
		disconnects:          describe("disconnects_total", "Connections that ended and were not told to."),
	}
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) {
	d := &s.described
	for _, desc := range []*prometheus.Desc{d.connected, d.subscriptionsRefused, d.inFlight, d.lag, d.messages, d.refused, d.samples, d.retries, d.connects, d.disconnects} {
		to <- desc
	}
	s.file.Describe(to)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	s.file.Collect(to)
	now := time.Now()
	for name, c := range s.allCounts() {
		s.described.collect(to, name, c, now)
	}
}

func (d *descriptions) collect(to chan<- prometheus.Metric, name string, c *counts, now time.Time) {
	gauge := func(desc *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, name)
	}
	counter := func(desc *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), append([]string{name}, labels...)...)
	}
	connected, lag := 0.0, 0.0
	if c.connected.Load() {
		connected = 1
	}
	if oldest := c.oldestMs.Load(); oldest != 0 {
		lag = max(now.Sub(time.UnixMilli(oldest)).Seconds(), 0)
	}
	gauge(d.connected, connected)
	gauge(d.subscriptionsRefused, float64(c.subscriptionsRefused.Load()))
	gauge(d.inFlight, float64(c.inFlight.Load()))
	gauge(d.lag, lag)
	refused := int64(0)
	for r := range reasons {
		n := c.refused[r].Load()
		refused += n
		counter(d.refused, n, reasonNames[r])
	}
	counter(d.messages, c.taken.Load(), "taken")
	counter(d.messages, refused, "refused")
	counter(d.messages, c.retained.Load(), "retained")
	counter(d.messages, c.dropped.Load(), "dropped")
	counter(d.samples, c.written.Load(), "written")
	counter(d.samples, c.refusedSamples.Load(), "refused")
	counter(d.retries, c.retries.Load())
	counter(d.connects, c.connects.Load(), "connected")
	counter(d.connects, c.failedConnects.Load(), "failed")
	counter(d.disconnects, c.disconnected.Load())
}
