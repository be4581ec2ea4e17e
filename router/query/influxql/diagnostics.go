package influxql

import (
	"cmp"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// Build is the program that answers.
type Build struct{ Version, Revision, Date string }

// module is one series of SHOW DIAGNOSTICS, of one row.
type module struct {
	name    string
	columns []string // sorted, as InfluxDB has them
	row     []answer.Value
}

// showDiagnostics answers with the modules that InfluxDB has too, and that mean something here.
func (x *execution) showDiagnostics(s *ql.ShowDiagnosticsStatement, out answer.Sink) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	text := answer.String
	for _, m := range []module{
		{"build", []string{"Branch", "Build Time", "Commit", "Version"},
			[]answer.Value{text("unknown"), text(x.build.Date), text(x.build.Revision), text(x.build.Version)}},
		{"network", []string{"hostname"}, []answer.Value{text(host)}},
		{"runtime", []string{"GOARCH", "GOMAXPROCS", "GOOS", "version"},
			[]answer.Value{text(runtime.GOARCH), answer.Integer(float64(runtime.GOMAXPROCS(0))), text(runtime.GOOS), text(runtime.Version())}},
		{"system", []string{"PID", "currentTime", "started", "uptime"},
			[]answer.Value{answer.Integer(float64(os.Getpid())), text(x.now.Format(time.RFC3339Nano)), text(x.started.Format(time.RFC3339Nano)), text(x.now.Sub(x.started).String())}},
	} {
		if s.Module != "" && s.Module != m.name {
			continue
		}
		if err := listAll(out, &answer.Head{Name: m.name, Columns: m.columns}, [][]answer.Value{m.row}); err != nil {
			return err
		}
	}
	return nil
}

// showStats answers with the metrics of the process, a series for each; a module is a metric.
func (x *execution) showStats(s *ql.ShowStatsStatement, out answer.Sink) error {
	if x.metrics == nil {
		return nil
	}
	families, err := x.metrics(access.Of(x.Ctx)).Gather()
	if err != nil && len(families) == 0 {
		return err
	}
	for _, f := range families {
		if s.Module != "" && s.Module != f.GetName() {
			continue
		}
		for _, m := range f.GetMetric() {
			columns, row := statOf(f.GetType(), m)
			if err := listAll(out, &answer.Head{Name: f.GetName(), Tags: tagsOf(m), Columns: columns}, [][]answer.Value{row}); err != nil {
				return err
			}
		}
	}
	return nil
}

// statOf returns the numbers of a metric; of a distribution how many values it has and their sum.
func statOf(of dto.MetricType, m *dto.Metric) (columns []string, row []answer.Value) {
	one, two := []string{"value"}, []string{"count", "sum"}
	switch of {
	case dto.MetricType_COUNTER:
		return one, []answer.Value{answer.Float(m.GetCounter().GetValue())}
	case dto.MetricType_GAUGE:
		return one, []answer.Value{answer.Float(m.GetGauge().GetValue())}
	case dto.MetricType_SUMMARY:
		return two, []answer.Value{answer.Integer(float64(m.GetSummary().GetSampleCount())), answer.Float(m.GetSummary().GetSampleSum())}
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		return two, []answer.Value{answer.Integer(float64(m.GetHistogram().GetSampleCount())), answer.Float(m.GetHistogram().GetSampleSum())}
	case dto.MetricType_UNTYPED:
	}
	return one, []answer.Value{answer.Float(m.GetUntyped().GetValue())}
}

func tagsOf(m *dto.Metric) []answer.Tag {
	tags := make([]answer.Tag, len(m.GetLabel()))
	for i, l := range m.GetLabel() {
		tags[i] = answer.Tag{Key: l.GetName(), Value: l.GetValue()}
	}
	slices.SortFunc(tags, func(a, b answer.Tag) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	})
	return tags
}

// showShards answers as InfluxDB does of databases that have no shards: its shards are stretches of the time of one
// retention policy, and there are none such. A shard here holds series of all databases and times.
func (x *execution) showShards(out answer.Sink) error {
	names, err := x.readable()
	if err != nil {
		return err
	}
	columns := []string{"id", "database", "retention_policy", "shard_group", "start_time", "end_time", "expiry_time", "owners"}
	for _, name := range names {
		if err := listAll(out, &answer.Head{Name: name, Columns: columns}, nil); err != nil {
			return err
		}
	}
	return nil
}

// showShardGroups answers with none. See showShards.
func (x *execution) showShardGroups(out answer.Sink) error {
	return listAll(out, &answer.Head{Name: "shard groups", Columns: []string{"id", "database", "retention_policy", "start_time", "end_time", "expiry_time"}}, nil)
}
