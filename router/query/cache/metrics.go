package cache

import "github.com/prometheus/client_golang/prometheus"

// metrics are what the cache counts.
type metrics struct {
	hits, misses, changed, windows prometheus.Counter
}

func newMetrics(size func() (entries int, bytes int64), registerer prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tickmesh", Subsystem: "query_cache", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	m := &metrics{
		hits:    counter("hits_total", "Reads of windows that took some from the cache."),
		misses:  counter("misses_total", "Reads of windows that could have been kept, and took none from the cache."),
		changed: counter("changed_total", "Answers of the cache that were dropped or cut, since something that they told of had changed, or the node that knew of changes was another one."),
		windows: counter("windows_total", "Windows that were taken from the cache."),
	}
	if registerer != nil {
		registerer.MustRegister(m.hits, m.misses, m.changed, m.windows,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("entries", "Questions that the cache knows, those that were asked once included.")), func() float64 {
				entries, _ := size()
				return float64(entries)
			}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("bytes", "Memory of the cache.")), func() float64 {
				_, bytes := size()
				return float64(bytes)
			}))
	}
	return m
}
