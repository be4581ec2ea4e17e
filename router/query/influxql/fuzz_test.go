package influxql

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// FuzzQuery: whatever is asked, the answer is JSON of one of the known shapes, and the
// queries are out of admission control.
func FuzzQuery(f *testing.F) {
	for _, all := range facts {
		for _, fact := range all {
			f.Add(fact.query, "", uint8(0))
		}
	}
	for _, seed := range []string{
		"SHOW TAG VALUES FROM cpu WITH KEY IN (\"host\") WHERE host =~ /a/", "SHOW SERIES EXACT CARDINALITY", "SELECT top(usage, host, 2), idle FROM cpu GROUP BY time(1h, now()) tz('Europe/Berlin')",
		"SELECT integral(usage, 1s), derivative(mean(usage)) FROM cpu WHERE time > now() - 1h GROUP BY time(10s, -3s), * fill(linear) ORDER BY time DESC LIMIT 2 OFFSET 1 SLIMIT 1",
		"SELECT * FROM (SELECT mean(usage) AS m, host FROM cpu GROUP BY time(1m), *) WHERE m > 2 OR host = 'a'", "SELECT usage::integer % 2 & 3 FROM cpu WHERE usage + idle > pow(2, 3)",
		"SELECT count(distinct(usage)), mode(idle) FROM /./ GROUP BY /h/", "DELETE FROM cpu WHERE host = $a", "SELECT sample(usage, 2) FROM cpu; DROP SERIES WHERE a = 'b' OR c != ''",
		"SELECT percentile(usage, -1e300), stddev(usage) - 1 FROM cpu WHERE time < '2262-04-11T23:47:16.854775806Z' AND time > '1677-09-21T00:12:43.145224194Z'",
		"SELECT mean(usage) FROM cpu WHERE time >= -9223372036854775806 AND time < 9223372036854775806 GROUP BY time(9223372036854775807ns)",
		"SELECT usage FROM cpu LIMIT 9223372036854775807 OFFSET 9223372036854775807", "SELECT moving_average(usage, 2) FROM (SELECT usage FROM cpu)", "SELECT f FROM cpu WHERE a = b OR 1 = 1",
	} {
		f.Add(seed, `{"a":"x"}`, uint8(3))
	}
	f.Fuzz(func(t *testing.T, query, params string, form uint8) {
		if len(query) > 2000 || len(params) > 200 {
			return
		}
		m := stored(t, grafanaLines)
		put(t, m, "db0", twoHosts)
		l := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 1 << 24}})
		h := New(Options{Source: l.Source(m), Deleter: m, Admission: l, Clock: testClock, Limits: Limits{WindowsMax: 1000, Parallel: 2}})
		values := url.Values{"q": {query}, "db": {"db0"}, "params": {params}}
		if form&1 != 0 {
			values.Set("chunked", "true")
			values.Set("chunk_size", "2")
		}
		if form&2 != 0 {
			values.Set("pretty", "true")
			values.Set("epoch", "ms")
		}
		r := httptest.NewRequest("POST", "/query", strings.NewReader(values.Encode()))
		if form&4 != 0 {
			r.Header.Set("Accept", "text/csv")
		}
		w := httptest.NewRecorder()
		access.Open(h).ServeHTTP(w, r)
		if n := len(l.Running()); n != 0 {
			t.Fatalf("%d queries are left in admission control", n)
		}
		if form&4 != 0 && w.Code == http.StatusOK {
			return
		}
		d := json.NewDecoder(w.Body)
		for d.More() {
			var answer struct {
				Results []struct {
					Error  string
					Series []struct {
						Columns []string
						Values  [][]any
					}
				}
				Error string
			}
			if err := d.Decode(&answer); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			if (w.Code == http.StatusOK) == (answer.Error != "") {
				t.Fatalf("%s: %d %+v", query, w.Code, answer)
			}
			for _, result := range answer.Results {
				for _, s := range result.Series {
					for _, row := range s.Values {
						if len(row) != len(s.Columns) {
							t.Fatalf("%s: %d values in %d columns", query, len(row), len(s.Columns))
						}
					}
				}
			}
		}
	})
}
