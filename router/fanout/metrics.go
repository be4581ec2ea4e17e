package fanout

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/resolve"
)

// metrics are a Cluster's figures.
type metrics struct {
	registerer prometheus.Registerer
	registered []prometheus.Collector

	writes                                   *prometheus.CounterVec // by result
	seconds                                  prometheus.Histogram
	attempts, redirects, retries, expired    prometheus.Counter
	full, eras, streamsLost, messages        prometheus.Counter
	calls, callsLost, shardsAgain, missing   prometheus.Counter
	probes, givenUp, leaderProbes, takeOvers prometheus.Counter
}

func newMetrics(r prometheus.Registerer, c *Cluster) *metrics {
	m := &metrics{registerer: r}
	counter := func(name, help string) prometheus.Counter {
		metric := prometheus.NewCounter(prometheus.CounterOpts{Name: "tickmesh_fanout_" + name, Help: help})
		m.register(metric)
		return metric
	}
	m.writes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickmesh_fanout_writes_total", Help: "Frames, by what became of them."}, []string{"result"})
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "tickmesh_fanout_write_seconds", Help: "How long frames took.", Buckets: prometheus.ExponentialBuckets(0.000_1, 4, 9),
	})
	m.register(m.writes)
	m.register(m.seconds)
	m.attempts = counter("attempts_total", "Frames, or parts of them, that were sent to nodes.")
	m.messages = counter("messages_total", "Messages that those frames went in.")
	m.redirects = counter("redirects_total", "Parts of frames that went on to another node at once, such as to the leader that a node has named.")
	m.retries = counter("retries_total", "Parts of frames that wait to be sent again.")
	m.expired = counter("expired_total", "Parts of frames for which another node was asked because one took long.")
	m.full = counter("stream_full_total", "Frames that found no room in the queue of a stream.")
	m.eras = counter("eras_total", "Parts of frames whose ids were of another era of their shard.")
	m.streamsLost = counter("streams_lost_total", "Streams of writes that were lost.")
	m.calls = counter("read_calls_total", "Calls to nodes for reads and deletes.")
	m.callsLost = counter("read_calls_failed_total", "Calls for reads and deletes that failed as a whole.")
	m.probes = counter("probes_total", "Times that a node which took long over a read was asked whether it is there.")
	m.givenUp = counter("read_calls_given_up_total", "Calls for reads and deletes that were given up because their node said nothing.")
	m.leaderProbes = counter("scouts_total", "Times that other nodes were asked who leads because one said nothing.")
	m.takeOvers = counter("take_overs_total", "Shards that another node was asked to lead because their leader is not reached from here.")
	m.shardsAgain = counter("read_retries_total", "Shards that were asked for again in reads and deletes.")
	m.missing = counter("read_shards_missing_total", "Shards that were left out of partial answers.")
	m.gauges(c)
	return m
}

func (m *metrics) gauges(c *Cluster) {
	gauge := func(name, help string, read func() float64) {
		m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tickmesh_" + name, Help: help}, read))
	}
	gauge("fanout_epoch", "Epoch of the shard map.", func() float64 { return float64(c.current.Load().seen.Epoch) })
	gauge("fanout_nodes", "Nodes that are connected, or would be if they were there.", func() float64 { return float64(len(c.current.Load().nodes)) })
	sum := func(of func(*lanes) int) func() float64 {
		return func() (total float64) {
			for _, n := range c.current.Load().nodes {
				total += float64(of(n.lanes))
			}
			return total
		}
	}
	gauge("fanout_connections", "Connections to nodes, open or resting.", sum(func(l *lanes) int { n, _ := l.counts(); return n }))
	gauge("fanout_calls_running", "Calls to nodes that run, writes and probes aside.", sum(func(l *lanes) int { _, n := l.counts(); return n }))
	gauge("fanout_sessions", "Sessions of batch ids.", func() float64 { return float64(c.sessions.count()) })
	gauge("fanout_unanswered_bytes", "Bytes of frames that are not answered yet.", func() float64 {
		var bytes int64
		for _, n := range c.current.Load().nodes {
			for _, l := range n.links {
				bytes += l.waiting()
			}
		}
		return float64(bytes)
	})
	cache := func(name, help string, read func(resolve.Stats) float64) {
		gauge("resolver_"+name, help, func() float64 { return read(c.resolver.Stats()) })
	}
	cache("series", "Series whose ids are known.", func(s resolve.Stats) float64 { return float64(s.Series) })
	cache("bytes", "Memory of the known ids.", func(s resolve.Stats) float64 { return float64(s.Bytes) })
	count := func(name, help string, read func(resolve.Stats) uint64) {
		m.register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "tickmesh_resolver_" + name, Help: help}, func() float64 { return float64(read(c.resolver.Stats())) }))
	}
	count("hits_total", "Keys whose ids were known.", func(s resolve.Stats) uint64 { return s.Hits })
	count("misses_total", "Keys whose ids were not known.", func(s resolve.Stats) uint64 { return s.Misses })
	count("evicted_total", "Ids that made room for others.", func(s resolve.Stats) uint64 { return s.Evicted })
	count("forgotten_total", "Ids that were forgotten because the era of their shard has ended.", func(s resolve.Stats) uint64 { return s.Forgotten })
}

func (m *metrics) register(c prometheus.Collector) {
	m.registerer.MustRegister(c)
	m.registered = append(m.registered, c)
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) wrote(took time.Duration, err error) {
	m.seconds.Observe(took.Seconds())
	m.writes.WithLabelValues(resultOf(err)).Inc()
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, series.ErrEra):
		return "era"
	case errors.Is(err, series.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, series.ErrReadOnly):
		return "read_only"
	case errors.Is(err, series.ErrSeriesLimit):
		return "series_limit"
	case errors.Is(err, series.ErrUnavailable):
		return "unavailable"
	default:
		return "failed"
	}
}
