package influxql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// TestExplain: EXPLAIN and explain=true.
func TestExplain(t *testing.T) {
	h := newTwoHosts(t, nil)
	const windows = `{"dialect":"influxql","databases":["db0"],"query":"SELECT mean(usage) FROM cpu WHERE time \u003e= '2000-01-01T00:00:00Z' AND time \u003c '2000-01-01T00:02:00Z' GROUP BY time(1m)",` +
		`"reads":[{"database":"db0","selector":"cpu{_field=\"usage\"}","from":"2000-01-01T00:00:00Z","to":"2000-01-01T00:01:59.999Z","sends":"windows",` +
		`"windows":{"width":"1m0s","aggregates":["sum","count"],"rollup":"none"},"series":2,"samples":3,"values":3,"bytes":72}],` +
		`"estimate":{"series":2,"samples":3,"values":3,"bytes":72},"admission":{"seriesMax":0,"samplesMax":0,"bytesMax":0,"exceeds":[]}}`
	const query = "SELECT mean(usage) FROM cpu WHERE time >= '2000-01-01T00:00:00Z' AND time < '2000-01-01T00:02:00Z' GROUP BY time(1m)"
	for _, c := range []struct {
		query      string
		parameters []string
		want       string
	}{
		{"EXPLAIN " + query, nil, `{"results":[{"statement_id":0,"series":[{"columns":["QUERY PLAN"],"values":[["READ: cpu{_field=\"usage\"}"],["DATABASE: db0"],["TIME: 2000-01-01T00:00:00Z TO 2000-01-01T00:01:59.999Z"],` +
			`["SENDS: windows of 1m0s, sum, count (rollups: none)"],["NUMBER OF SERIES: 2"],["SAMPLES: 3"],["VALUES: 3"],["BYTES: 72"],[""],["ALL SERIES: 2 of any number"],["ALL SAMPLES: 3 of any number"],["ALL BYTES: 72 of any number"]]}]}]}`},
		{query, []string{"explain", "true"}, `{"results":[{"statement_id":0,"plan":` + windows + `}]}`},
		{"EXPLAIN " + query + "; DROP MEASUREMENT cpu; " + query, []string{"explain", "true"}, ""},
		{query + "; SHOW MEASUREMENTS; " + query, []string{"explain", "true"}, `{"results":[{"statement_id":0,"plan":` + windows + `},{"statement_id":1,"error":"explain=true is for SELECT"},{"statement_id":2,"error":"not executed"}]}`},
		{"SELECT mean(usage), usage FROM cpu", []string{"explain", "true"}, `{"results":[{"statement_id":0,"error":"mixing aggregate and non-aggregate queries is not supported"}]}`},
		{"EXPLAIN SELECT mean(usage), usage FROM cpu", nil, `{"results":[{"statement_id":0,"error":"mixing aggregate and non-aggregate queries is not supported"}]}`},
		{"EXPLAIN SELECT * FROM _series", nil, `{"results":[{"statement_id":0,"error":"unable to use system source '_series': use SHOW SERIES instead"}]}`},
		{"EXPLAIN ANALYZE " + query, nil, `{"results":[{"statement_id":0,"error":"EXPLAIN ANALYZE is not supported: EXPLAIN tells what a query would read; run the query to see how long it takes"}]}`},
		{"SELECT count(usage) FROM cpu", nil, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","count"],"values":[["1970-01-01T00:00:00Z",3]]}]}]}`}, // nothing was dropped
	} {
		status, got := get(t, h, c.query, c.parameters...)
		if c.want == "" {
			if status == 200 {
				t.Errorf("%s: %d %s", c.query, status, got)
			}
			continue
		}
		if status != 200 || got != c.want {
			t.Errorf("%s:\n got %d %s\nwant %s", c.query, status, got, c.want)
		}
	}
	if r := post(h, "/query?db=db0&explain=true", "application/x-www-form-urlencoded", "q=DROP MEASUREMENT cpu"); r.StatusCode != 200 {
		t.Error(r.Status)
	}
	if _, got := get(t, h, "SHOW MEASUREMENTS"); !strings.Contains(got, "cpu") {
		t.Error("what was to be explained was run:", got)
	}
}

// TestExplainReads: a plan has the requests that the query makes.
func TestExplainReads(t *testing.T) {
	watched := scantest.Watch(stored(t, twoHosts))
	h := New(Options{Source: watched, Clock: testClock})
	for _, query := range []string{
		"SELECT usage FROM cpu", "SELECT usage FROM cpu GROUP BY host", "SELECT mean(usage), last(idle) FROM cpu WHERE time > '1999-01-01' GROUP BY time(1h), host fill(none)",
		"SELECT percentile(usage, 50) FROM cpu", "SELECT last(usage) FROM cpu", "SELECT mean(d) FROM (SELECT derivative(usage) AS d FROM cpu GROUP BY host)",
		"SELECT usage FROM /c.*/ WHERE host =~ /a|b/ AND usage > 2 LIMIT 5", "SELECT usage FROM nosuch", "SELECT sum(usage) FROM cpu WHERE time > '2000-01-01' GROUP BY *",
	} {
		if status, got := get(t, h, query); status != 200 || strings.Contains(got, "error") {
			t.Fatal(query, got)
		}
		var want []string
		for _, r := range watched.Take() {
			want = append(want, fmt.Sprintf("%d %d %v", clip(r.FromMs), clip(r.ToMs), r.Windows != nil))
		}
		_, answer := get(t, h, query, "explain", "true")
		var plan struct {
			Results []struct {
				Plan struct {
					Reads []struct {
						From, To *time.Time
						Windows  *struct{}
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(answer), &plan); err != nil || len(plan.Results) != 1 {
			t.Fatal(query, answer)
		}
		var got []string
		for _, r := range plan.Results[0].Plan.Reads {
			from, to := int64(scan.TimeMsMin), int64(scan.TimeMsMax)
			if r.From != nil {
				from = r.From.UnixMilli()
			}
			if r.To != nil {
				to = r.To.UnixMilli()
			}
			got = append(got, fmt.Sprintf("%d %d %v", from, to, r.Windows != nil))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", query, got, want)
		}
		for _, r := range watched.Take() {
			if r.Windows == nil || r.Windows.Aggregates != scan.AggregateCount || !r.Exact {
				t.Errorf("%s: planning reads %+v", query, r)
			}
		}
	}
}

// clip leaves out what RFC 3339 has no year for.
func clip(ms int64) int64 {
	switch year := time.UnixMilli(ms).UTC().Year(); {
	case year < 0:
		return scan.TimeMsMin
	case year > 9999:
		return scan.TimeMsMax
	}
	return ms
}
