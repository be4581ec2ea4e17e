package metadata

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are what a Catalog counts.
type counts struct {
	leftOut      atomic.Int64
	roundsFailed atomic.Int64
}

// Describe implements prometheus.Collector.
func (c *Catalog) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, descs) }

// Collect implements prometheus.Collector.
func (c *Catalog) Collect(metrics chan<- prometheus.Metric) {
	send := func(name, help string, kind prometheus.ValueType, value int64) {
		metrics <- prometheus.MustNewConstMetric(prometheus.NewDesc("tickmesh_metadata_"+name, help, nil, nil), kind, float64(value))
	}
	c.mu.RLock()
	bytes := c.bytes
	c.mu.RUnlock()
	send("bytes", "Memory of what metrics mean.", prometheus.GaugeValue, int64(bytes))
	send("left_out_total", "Times that what a writer said of a metric was not kept, as there was no room.", prometheus.CounterValue, c.counts.leftOut.Load())
	send("rounds_failed_total", "Rounds in which what metrics mean could not be read from where it is kept, or not all of it be written there.",
		prometheus.CounterValue, c.counts.roundsFailed.Load())
}
