package budget

import "github.com/prometheus/client_golang/prometheus"

// collector describes pools by their names.
type collector struct {
	pools                            map[string]*Pool
	used, bytesMax, waiting, refused *prometheus.Desc
}

// NewCollector returns metrics of pools, which have their names as a label.
func NewCollector(pools map[string]*Pool) prometheus.Collector {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tickmesh_budget_"+name, help, []string{"pool"}, nil)
	}
	return &collector{
		pools:    pools,
		used:     describe("used_bytes", "Bytes that requests hold of a budget of memory."),
		bytesMax: describe("bytes_max", "Bytes that requests may hold of a budget of memory."),
		waiting:  describe("waiting", "Requests that wait for a budget of memory."),
		refused:  describe("refused_total", "Requests that got no room in a budget of memory."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.used, c.bytesMax, c.waiting, c.refused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for name, p := range c.pools {
		s := p.Stats()
		to <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(s.Used), name)
		to <- prometheus.MustNewConstMetric(c.bytesMax, prometheus.GaugeValue, float64(p.BytesMax()), name)
		to <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(s.Waiting), name)
		to <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(s.Refused), name)
	}
}
