package server

import (
	"context"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
)

// statsOf returns all counters and gauges as OpenTSDB's /api/stats names them: dots
// for underscores. Histograms are told by their count and sum. The caller gets those that it
// may see.
func statsOf(ctx context.Context, r *process.Registry) []opentsdb.Stat {
	families, err := r.Visible(access.Of(ctx)).Gather()
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
