package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
)

// registry holds the metrics of the process.
type registry struct{ *prometheus.Registry }

func newRegistry() *registry {
	r := &registry{prometheus.NewRegistry()}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return r
}

// buildInfo says in its labels which program runs; its value is 1.
func buildInfo() prometheus.Collector {
	b := build()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tickmesh_build_info", Help: "1, with the version in the labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision},
	}, func() float64 { return 1 })
}

// labelDatabase is the label of metrics that are of one database.
const labelDatabase = "database"

// visible returns the metrics without those of databases that the caller may not read: their
// labels name other tenants and tell what they do.
func (r *registry) visible(who access.Principal) prometheus.Gatherer {
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

// serve answers with the metrics that the caller may see.
func (r *registry) serve(w http.ResponseWriter, request *http.Request) {
	promhttp.HandlerFor(r.visible(access.Of(request.Context())), promhttp.HandlerOpts{Registry: r}).ServeHTTP(w, request)
}

// stats gives all counters and gauges as OpenTSDB's /api/stats names them: dots
// for underscores. Histograms are told by their count and sum. The caller gets those that it
// may see.
func (r *registry) stats(ctx context.Context) []opentsdb.Stat {
	families, err := r.visible(access.Of(ctx)).Gather()
	if err != nil && len(families) == 0 {
		return nil
	}
	now := time.Now().UnixMilli()
	var stats []opentsdb.Stat
	for _, f := range families {
		name := strings.ReplaceAll(f.GetName(), "_", ".")
		for _, m := range f.GetMetric() {
			tags := map[string]string{}
			for _, l := range m.GetLabel() {
				tags[l.GetName()] = l.GetValue()
			}
			add := func(name string, v float64) {
				stats = append(stats, opentsdb.Stat{Metric: name, TimeMs: now, Value: v, Tags: tags})
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				add(name, m.GetCounter().GetValue())
			case dto.MetricType_GAUGE:
				add(name, m.GetGauge().GetValue())
			case dto.MetricType_HISTOGRAM:
				add(name+".count", float64(m.GetHistogram().GetSampleCount()))
				add(name+".sum", m.GetHistogram().GetSampleSum())
			case dto.MetricType_SUMMARY:
				add(name+".count", float64(m.GetSummary().GetSampleCount()))
				add(name+".sum", m.GetSummary().GetSampleSum())
			case dto.MetricType_UNTYPED, dto.MetricType_GAUGE_HISTOGRAM:
			}
		}
	}
	return stats
}

// registerNode registers one of several nodes of the process.
func (r *registry) registerNode(name string, c prometheus.Collector) {
	prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, r).MustRegister(c)
}
