package influxql

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

const changeLines = `
cpu,host=a,dc=x value=1,f=2 2000-01-01T00:00:00Z
cpu,host=b,dc=y value=3,f=4 2000-01-01T00:00:00Z
cpu,host=a,dc=x value=5,f=6 2000-01-01T01:00:00Z
mem,host=a value=7 2000-01-01T00:00:00Z`

// left returns the samples that are still there, as "measurement field host value".
func left(t *testing.T, m *scantest.Memory) []string {
	t.Helper()
	var all []string
	h := New(Options{Source: m})
	for _, q := range []string{"SELECT value, f, host FROM cpu", "SELECT value, host FROM mem"} {
		_, csv := getCSV(t, h, q)
		for line := range strings.Lines(csv) {
			if !strings.HasPrefix(line, "name,") {
				all = append(all, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(all)
	return all
}

func getCSV(t *testing.T, h http.Handler, q string) (int, string) {
	t.Helper()
	r := post(h, "/query?db=db0&epoch=h", "", url.Values{"q": {q}}.Encode(), "Accept", "text/csv")
	return r.StatusCode, bodyOf(t, r)
}

func TestDeletes(t *testing.T) {
	const (
		a0, b0, a1, mem = "cpu,,262968,1,2,a", "cpu,,262968,3,4,b", "cpu,,262969,5,6,a", "mem,,262968,7,a"
	)
	for _, c := range []struct {
		query, err string
		want       []string
	}{
		{"DROP MEASUREMENT cpu", "", []string{mem}},
		{"DROP MEASUREMENT nosuch", "", []string{a0, b0, a1, mem}},
		{"DROP SERIES FROM cpu WHERE host = 'a'", "", []string{b0, mem}},
		{"DROP SERIES WHERE host = 'a'", "", []string{b0}},
		{"DROP SERIES FROM /c/ WHERE dc =~ /x|y/", "", []string{mem}},
		{"DROP SERIES FROM cpu WHERE host = 'b' OR dc = 'x'", "", []string{mem}},
		{"DROP SERIES FROM cpu WHERE host = 'b' OR dc = 'z'", "", []string{a0, a1, mem}},
		{"DROP SERIES FROM cpu WHERE time > 0", "DROP SERIES doesn't support time in WHERE clause", []string{a0, b0, a1, mem}},
		{"DROP SERIES FROM cpu WHERE f > 1", "fields not supported in WHERE clause during deletion", []string{a0, b0, a1, mem}},
		{"DROP SERIES FROM cpu WHERE host = 'a' OR dc >= 'x'", "invalid tag comparison operator: dc \\u003e= 'x': WHERE is about tags here, and their values are texts: use =, !=, =~ or !~", []string{a0, b0, a1, mem}},
		{"DELETE FROM cpu WHERE time < '2000-01-01T01:00:00Z'", "", []string{a1, mem}},
		{"DELETE FROM cpu WHERE host = 'a' AND time >= '2000-01-01T00:30:00Z'", "", []string{a0, b0, mem}},
		{"DELETE WHERE time <= '2000-01-01T00:00:00Z'", "", []string{a1}},
		{"DELETE FROM nosuch", "", []string{a0, b0, a1, mem}},
		{"DROP DATABASE db0", "", nil},
		{`DROP DATABASE "default"`, "the default database cannot be dropped: drop its measurements", []string{a0, b0, a1, mem}},
		{"CREATE DATABASE db0", "", []string{a0, b0, a1, mem}},
		{"CREATE DATABASE db0 WITH NAME autogen", "", []string{a0, b0, a1, mem}},
		{"CREATE DATABASE db0 WITH DURATION 1d", `how long database \"db0\" is kept is not known here, as nodes have a --retention of their own: set its retention to 1d in the file of --databases-file, then repeat the statement`, []string{a0, b0, a1, mem}},
	} {
		m := stored(t, changeLines)
		h := New(Options{Source: m, Deleter: m, Clock: testClock})
		want := `{"results":[{"statement_id":0}]}` + "\n"
		if c.err != "" {
			want = `{"results":[{"statement_id":0,"error":"` + c.err + `"}]}` + "\n"
		}
		r := post(h, "/query?db=db0", "", url.Values{"q": {c.query}}.Encode())
		if got := bodyOf(t, r); got != want {
			t.Errorf("%s: %s", c.query, got)
		}
		slices.Sort(c.want)
		if got := left(t, m); !slices.Equal(got, c.want) {
			t.Errorf("%s leaves %q", c.query, got)
		}
	}
	m := stored(t, changeLines)
	w := httptest.NewRecorder()
	access.Open(New(Options{Source: m})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/query?db=db0&q=DELETE+FROM+cpu", nil))
	if got := w.Body.String(); !strings.Contains(got, "deleting is not offered here") {
		t.Errorf("without a deleter: %s", got)
	}
	if _, got := get(t, New(Options{Source: m, Deleter: m}), "SHOW DATABASES; DELETE FROM cpu"); got != `{"error":"statements that change something want a POST request"}` {
		t.Errorf("by GET: %s", got)
	}
}

// directory is a Databases in memory.
type directory struct{ names []string }

func (d *directory) List(context.Context) ([]string, error) { return d.names, nil }

func (d *directory) Create(_ context.Context, name string) error {
	if !slices.Contains(d.names, name) {
		d.names = append(d.names, name)
		slices.Sort(d.names)
	}
	return nil
}

func (d *directory) Drop(_ context.Context, name string) error {
	if name == "kept" {
		return errors.New("it is kept")
	}
	d.names = slices.DeleteFunc(d.names, func(n string) bool { return n == name })
	return nil
}

func TestDatabases(t *testing.T) {
	d := &directory{names: []string{"db0", "kept"}}
	h := New(Options{Source: stored(t, changeLines), Databases: d, Retention: func(name string) (time.Duration, bool) {
		return map[string]time.Duration{"": 36 * time.Hour, "kept": 90 * time.Minute}[name], true
	}})
	policy := func(kept string) string {
		return one(`{"columns":["name","duration","shardGroupDuration","replicaN","default"],"values":[["autogen","` + kept + `","168h0m0s",1,true]]}`)
	}
	for _, c := range [][2]string{
		{"SHOW RETENTION POLICIES ON kept", policy("1h30m0s")},
		{`SHOW RETENTION POLICIES ON "default"`, policy("36h0m0s")},
		{"SHOW RETENTION POLICIES", policy("0s")}, // of db0
		{"CREATE DATABASE fresh", ""},
		{"CREATE DATABASE fresh", ""},
		{"SHOW DATABASES", one(`{"name":"databases","columns":["name"],"values":[["db0"],["default"],["fresh"],["kept"]]}`)},
		{"SHOW MEASUREMENTS ON fresh", ""},
		{"DROP DATABASE fresh", ""},
		{"SHOW MEASUREMENTS ON fresh", `,"error":"database not found: fresh"`},
		{"SHOW TAG KEYS ON fresh", `,"error":"database not found: fresh"`},
		{"SHOW RETENTION POLICIES ON fresh", `,"error":"database not found: fresh"`},
		{"SELECT * FROM fresh..cpu", `,"error":"database not found: fresh"`},
		{"DROP DATABASE kept", `,"error":"it is kept"`},
		{"SHOW CONTINUOUS QUERIES", one(`{"name":"db0","columns":["name","query"]},{"name":"default","columns":["name","query"]},{"name":"kept","columns":["name","query"]}`)},
	} {
		r := post(h, "/query?db=db0", "", "q="+strings.ReplaceAll(c[0], " ", "+"))
		if got, want := bodyOf(t, r), `{"results":[{"statement_id":0`+c[1]+`}]}`+"\n"; got != want {
			t.Errorf("%s: %s", c[0], got)
		}
	}
}

func TestCardinality(t *testing.T) {
	h := New(Options{Source: stored(t, changeLines)})
	for _, f := range []fact{
		{"SHOW SERIES CARDINALITY", one(`{"columns":["cardinality estimation"],"values":[[3]]}`)},
		{"SHOW SERIES EXACT CARDINALITY", one(`{"name":"cpu","columns":["count"],"values":[[2]]},{"name":"mem","columns":["count"],"values":[[1]]}`)},
		{"SHOW SERIES EXACT CARDINALITY WHERE host = 'a' OR dc = 'y'", one(`{"name":"cpu","columns":["count"],"values":[[2]]},{"name":"mem","columns":["count"],"values":[[1]]}`)},
		{"SHOW MEASUREMENT CARDINALITY", one(`{"columns":["cardinality estimation"],"values":[[2]]}`)},
		{"SHOW MEASUREMENT EXACT CARDINALITY", one(`{"columns":["count"],"values":[[2]]}`)},
		{"SHOW TAG KEY CARDINALITY", one(`{"name":"cpu","columns":["count"],"values":[[2]]},{"name":"mem","columns":["count"],"values":[[1]]}`)},
		{"SHOW TAG VALUES CARDINALITY WITH KEY = host", one(`{"name":"cpu","columns":["count"],"values":[[2]]},{"name":"mem","columns":["count"],"values":[[1]]}`)},
		{"SHOW FIELD KEY CARDINALITY", one(`{"name":"cpu","columns":["count"],"values":[[2]]},{"name":"mem","columns":["count"],"values":[[1]]}`)},
		{"SHOW SERIES", one(`{"columns":["key"],"values":[["cpu,dc=x,host=a"],["cpu,dc=y,host=b"],["mem,host=a"]]}`)},
		{"SHOW SERIES LIMIT 1 OFFSET 1", one(`{"columns":["key"],"values":[["cpu,dc=y,host=b"]]}`)},
		{"SHOW QUERIES", one(`{"columns":["qid","query","database","duration","status"],"values":[[12,"SHOW QUERIES","db0","0s","running"]]}`)},
		{"KILL QUERY 999", `,"error":"no such query id: 999"`},
	} {
		_, got := get(t, h, f.query)
		want := `{"results":[{"statement_id":0` + f.result + `}]}`
		if f.query == "SHOW QUERIES" {
			got, want = got[:strings.Index(got, `"values"`)], want[:strings.Index(want, `"values"`)]
		}
		if got != want {
			t.Errorf("%s\n%s\nwant %s", f.query, got, want)
		}
	}
}
