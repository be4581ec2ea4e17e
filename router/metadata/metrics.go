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

var (
	bytesDesc        = prometheus.NewDesc("tickmesh_metadata_bytes", "Memory of what metrics mean.", nil, nil)
	leftOutDesc      = prometheus.NewDesc("tickmesh_metadata_left_out_total", "Times that what a writer said of a metric was not kept, as there was no room.", nil, nil)
	roundsFailedDesc = prometheus.NewDesc("tickmesh_metadata_rounds_failed_total", "Rounds in which what metrics mean could not be read from where it is kept, or not all of it be written there.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Catalog) Describe(descs chan<- *prometheus.Desc) {
	descs <- bytesDesc
	descs <- leftOutDesc
	descs <- roundsFailedDesc
}

// Collect implements prometheus.Collector.
func (c *Catalog) Collect(metrics chan<- prometheus.Metric) {
	c.mu.RLock()
	bytes := c.bytes
	c.mu.RUnlock()
	metrics <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(bytes))
	metrics <- prometheus.MustNewConstMetric(leftOutDesc, prometheus.CounterValue, float64(c.counts.leftOut.Load()))
	metrics <- prometheus.MustNewConstMetric(roundsFailedDesc, prometheus.CounterValue, float64(c.counts.roundsFailed.Load()))
}
