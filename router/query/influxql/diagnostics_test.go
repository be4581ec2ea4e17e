package influxql

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
)

// TestServerStatements holds the shapes of InfluxDB 1.8 (coordinator/statement_executor.go, monitor).
func TestServerStatements(t *testing.T) {
	r := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_points_total", Help: "."}, []string{"port", "kind"})
	counter.WithLabelValues("http", "x").Add(3)
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "b_seconds", Help: "."})
	histogram.Observe(0.5)
	histogram.Observe(1)
	r.MustRegister(counter, histogram)
	now := time.Date(2000, 1, 2, 3, 4, 5, 0, time.UTC)
	h := New(Options{Source: stored(t, changeLines), Databases: &directory{names: []string{"db0"}},
		Metrics: func(access.Principal) prometheus.Gatherer { return r }, Build: Build{Version: "0.1.0", Revision: "abc", Date: "today"},
		Clock: func() time.Time { now = now.Add(time.Second); return now }})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	points := `{"name":"a_points_total","tags":{"kind":"x","port":"http"},"columns":["value"],"values":[[3]]}`
	const shardColumns = `"columns":["id","database","retention_policy","shard_group","start_time","end_time","expiry_time","owners"]`
	for _, f := range []fact{
		{"SHOW DIAGNOSTICS FOR 'build'", one(`{"name":"build","columns":["Branch","Build Time","Commit","Version"],"values":[["unknown","today","abc","0.1.0"]]}`)},
		{"SHOW DIAGNOSTICS FOR 'system'", one(fmt.Sprintf(`{"name":"system","columns":["PID","currentTime","started","uptime"],"values":[[%d,"2000-01-02T03:04:08Z","2000-01-02T03:04:06Z","2s"]]}`, os.Getpid()))},
		{"SHOW DIAGNOSTICS FOR 'network'", one(`{"name":"network","columns":["hostname"],"values":[["` + host + `"]]}`)},
		{"SHOW DIAGNOSTICS FOR 'runtime'", one(fmt.Sprintf(`{"name":"runtime","columns":["GOARCH","GOMAXPROCS","GOOS","version"],"values":[[%q,%d,%q,%q]]}`,
			runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.GOOS, runtime.Version()))},
		{"SHOW DIAGNOSTICS FOR 'nosuch'", ""},
		{"SHOW STATS", one(points + `,{"name":"b_seconds","columns":["count","sum"],"values":[[2,1.5]]}`)},
		{"SHOW STATS FOR 'a_points_total'", one(points)},
		{"SHOW STATS FOR 'indexes'", ""},
		{"SHOW SHARDS", one(`{"name":"db0",` + shardColumns + `},{"name":"default",` + shardColumns + `}`)},
		{"SHOW SHARD GROUPS", one(`{"name":"shard groups","columns":["id","database","retention_policy","start_time","end_time","expiry_time"]}`)},
	} {
		if _, got := get(t, h, f.query); got != `{"results":[{"statement_id":0`+f.result+`}]}` {
			t.Errorf("%s: %s", f.query, got)
		}
	}
	for _, q := range []string{"SHOW DIAGNOSTICS", "SHOW STATS", "SHOW SHARDS", "SHOW SHARD GROUPS"} {
		statements, err := newHandler(Options{Source: stored(t, "")}).parse(t.Context(), q, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := needsOf(statements[0], "db0"), []need{{access.Everything, access.Admin}}; !slices.Equal(got, want) {
			t.Errorf("%s needs %v", q, got)
		}
		for _, c := range []struct {
			who     access.Principal
			allowed bool
		}{{access.Anyone(), true}, {access.Confine(access.Anyone(), "db0"), false}} { // who may do all with db0 is told nothing of the server
			_, _, err := booked(access.With(t.Context(), c.who), &request{statements: statements, database: "db0"})
			if denied := (*access.DeniedError)(nil); c.allowed != (err == nil) || !c.allowed && !errors.As(err, &denied) {
				t.Errorf("%s: %v", q, err)
			}
		}
	}
}
