package process

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/access"
)

// Registry holds the metrics of the process.
type Registry struct{ *prometheus.Registry }

// NewRegistry returns a registry with the metrics of Go, of the process and of its build.
func NewRegistry() *Registry {
	r := &Registry{prometheus.NewRegistry()}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildGauge())
	return r
}

// buildGauge returns a gauge of 1 whose labels name the build that runs.
func buildGauge() prometheus.Collector {
	b := CurrentBuild()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tickmesh_build_info", Help: "1, with the version in the labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision},
	}, func() float64 { return 1 })
}

// labelDatabase is the label of metrics that are of one database.
const labelDatabase = "database"

// Visible returns the metrics without those of databases that the caller may not read: their
// labels name other tenants and tell what they do.
func (r *Registry) Visible(who access.Principal) prometheus.Gatherer {
	hidden := func(m *dto.Metric) bool {
		return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == labelDatabase && !who.May(access.Canonical(l.GetValue()), access.Read)
		})
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := r.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.Metric, hidden)
		}
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.GetMetric()) == 0 }), err
	})
}

// ServeMetrics answers with the metrics that the caller may see.
func (r *Registry) ServeMetrics(w http.ResponseWriter, request *http.Request) {
	promhttp.HandlerFor(r.Visible(access.Of(request.Context())), promhttp.HandlerOpts{Registry: r}).ServeHTTP(w, request)
}

// RegisterNode registers one of several nodes of the process.
func (r *Registry) RegisterNode(name string, c prometheus.Collector) {
	prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, r).MustRegister(c)
}
