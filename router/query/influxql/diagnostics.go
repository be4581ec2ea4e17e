package influxql

import (
	"os"
	"runtime"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// Build says what program it is, and since when it runs, for SHOW DIAGNOSTICS.
type Build struct {
	Version, Revision, Date string
	Started                 time.Time
}

// module is a part of the process that SHOW DIAGNOSTICS or SHOW STATS tells about: a row of values by their names.
type module struct {
	name    string
	columns []string
	row     []answer.Value
}

// showDiagnostics tells what program on what machine answers, in the modules and columns of InfluxDB 1.8's monitor/diagnostics
// that have a meaning here.
func (x *execution) showDiagnostics(s *ql.ShowDiagnosticsStatement, out answer.Sink) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	b := &x.build
	texts := func(values ...string) (row []answer.Value) {
		for _, v := range values {
			row = append(row, answer.String(v))
		}
		return row
	}
	now := time.Now().UTC()
	system := append([]answer.Value{answer.Integer(float64(os.Getpid()))}, texts(now.Format(time.RFC3339Nano), b.Started.UTC().Format(time.RFC3339Nano), now.Sub(b.Started).String())...)
	run := append(texts(runtime.GOARCH), answer.Integer(float64(runtime.GOMAXPROCS(0))))
	return showModules(out, s.Module, []module{
		{"build", []string{"Build Time", "Commit", "Version"}, texts(b.Date, b.Revision, b.Version)},
		{"network", []string{"hostname"}, texts(host)},
		{"runtime", []string{"GOARCH", "GOMAXPROCS", "GOOS", "version"}, append(run, texts(runtime.GOOS, runtime.Version())...)},
		{"system", []string{"PID", "currentTime", "started", "uptime"}, system},
	})
}

// showStats tells what Go's runtime counts, as InfluxDB's module runtime. All else is at /metrics.
func (x *execution) showStats(s *ql.ShowStatsStatement, out answer.Sink) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtimeModule := module{name: "runtime"}
	for _, v := range []struct {
		name  string
		value uint64
	}{
		{"Alloc", m.Alloc}, {"Frees", m.Frees}, {"HeapAlloc", m.HeapAlloc}, {"HeapIdle", m.HeapIdle}, {"HeapInUse", m.HeapInuse},
		{"HeapObjects", m.HeapObjects}, {"HeapReleased", m.HeapReleased}, {"HeapSys", m.HeapSys}, {"Lookups", m.Lookups}, {"Mallocs", m.Mallocs},
		{"NumGC", uint64(m.NumGC)}, {"NumGoroutine", uint64(max(0, runtime.NumGoroutine()))}, {"PauseTotalNs", m.PauseTotalNs}, {"Sys", m.Sys}, {"TotalAlloc", m.TotalAlloc},
	} {
		runtimeModule.columns = append(runtimeModule.columns, v.name)
		runtimeModule.row = append(runtimeModule.row, answer.Integer(float64(v.value)))
	}
	return showModules(out, s.Module, []module{runtimeModule})
}

// showModules writes modules: all, or the one of a name, if there is it.
func showModules(out answer.Sink, name string, all []module) error {
	for _, m := range all {
		if name != "" && !strings.EqualFold(name, m.name) {
			continue
		}
		if err := listAll(out, &answer.Head{Name: m.name, Columns: m.columns}, [][]answer.Value{m.row}); err != nil {
			return err
		}
	}
	return nil
}
