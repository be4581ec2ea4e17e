package influxql

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/consistency"
)

const twoHosts = `
cpu,host=a usage=1.5,idle=9 2000-01-01T00:00:00Z
cpu,host=b usage=3 2000-01-01T00:00:01Z
cpu,host=a usage=5 2000-01-01T00:01:00Z`

func newTwoHosts(t *testing.T, change func(*Options)) http.Handler {
	t.Helper()
	m := stored(t, twoHosts)
	o := Options{Source: m, Deleter: m, Clock: testClock}
	if change != nil {
		change(&o)
	}
	return New(o)
}

func TestParameters(t *testing.T) {
	h := newTwoHosts(t, nil)
	for _, c := range []struct {
		query      string
		parameters []string
		status     int
		want       string
	}{
		{"", nil, 400, `{"error":"missing required parameter \"q\""}`},
		{"SELECT", nil, 400, `{"error":"error parsing query: found EOF, expected identifier, string, number, bool at line 1, char 8"}`},
		{"SELECT usage FROM cpu LIMIT 1", []string{"epoch", "s"}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[946684800,1.5]]}]}]}`},
		{"SELECT usage FROM cpu LIMIT 1", []string{"epoch", "u"}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[946684800000000,1.5]]}]}]}`},
		{"SELECT usage FROM cpu LIMIT 1", []string{"epoch", "h"}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[262968,1.5]]}]}]}`},
		{"SELECT usage FROM cpu LIMIT 1", []string{"epoch", "ns"}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[946684800000000000,1.5]]}]}]}`},
		{"SELECT usage FROM cpu WHERE host = $h AND usage > $u", []string{"params", `{"h":"a","u":2}`}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[["2000-01-01T00:01:00Z",5]]}]}]}`},
		{"SELECT usage FROM cpu WHERE usage < $u", []string{"params", `{"u":2.5}`}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[["2000-01-01T00:00:00Z",1.5]]}]}]}`},
		{"SELECT usage FROM cpu WHERE usage < $u", []string{"params", `{"u":`}, 400, `{"error":"error parsing query parameters: unexpected EOF"}`},
		{"SHOW MEASUREMENTS; SELECT nosuch(f) FROM cpu; SHOW MEASUREMENTS", nil, 200,
			`{"results":[{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["cpu"]]}]},{"statement_id":1,"error":"undefined function nosuch()"},{"statement_id":2,"error":"not executed"}]}`},
		{"SELECT usage FROM nosuch", []string{"db", "absent"}, 200, `{"results":[{"statement_id":0,"error":"database not found: absent"}]}`},
		{"SELECT usage FROM nosuch", []string{"db", "default"}, 200, `{"results":[{"statement_id":0}]}`},
		{`SELECT usage FROM db0.autogen.cpu LIMIT 1`, []string{"db", ""}, 200, `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[["2000-01-01T00:00:00Z",1.5]]}]}]}`},
		{`SELECT usage INTO x FROM cpu`, nil, 405, `{"error":"statements that change something want a POST request"}`},
		{"SELECT exponential_moving_average(mean(usage), 2) FROM cpu WHERE time > 0 GROUP BY time(1d)", nil, 200, `{"results":[{"statement_id":0,"error":"function exponential_moving_average() is not supported"}]}`},
		{"SHOW USERS", nil, 200, `{"results":[{"statement_id":0,"error":"not supported: SHOW USERS: users and their rights are set in a file when the server is started"}]}`},
		{"SHOW TAG VALUES WITH KEY = host WHERE (host != 'b' AND usage < 2)", nil, 200, `{"results":[{"statement_id":0,"error":"invalid tag comparison operator: usage \u003c 2: WHERE is about tags here, and their values are texts: use =, !=, =~ or !~"}]}`},
		{"SHOW SERIES WHERE host = 5", nil, 200, `{"results":[{"statement_id":0,"error":"right side of '=' must be a tag value string: host = 5: WHERE is about tags here, and their values are texts: write host = '5'"}]}`},
		{"SHOW MEASUREMENTS WHERE host = 'a' AND host = dc", nil, 200, `{"results":[{"statement_id":0}]}`},
		{`CREATE RETENTION POLICY two ON db0 DURATION 2d REPLICATION 1`, nil, 200, `{"results":[{"statement_id":0,"error":"how long database \"db0\" is kept is not known here, as nodes have a --retention of their own: set its retention to 2d in the file of --databases-file, then repeat the statement"}]}`},
		{strings.Repeat("(", 500), nil, 400, `{"error":"error parsing query: the query is too large: its brackets are nested more than 128 levels deep"}`},
		{strings.Repeat("SHOW DATABASES;", 101), nil, 400, `{"error":"error parsing query: 101 statements, at most 100 can be sent at once"}`},
	} {
		status, got := get(t, h, c.query, c.parameters...)
		if status != c.status || got != c.want {
			t.Errorf("%.100s %q\n%d %s\nwant %d %s", c.query, c.parameters, status, got, c.status, c.want)
		}
	}
}

func TestForms(t *testing.T) {
	h := newTwoHosts(t, nil)
	const want = `{"results":[{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["cpu"]]}]}]}` + "\n"
	for name, r := range map[string]*http.Response{
		"no type":   post(h, "/query?db=db0", "", "q=SHOW+MEASUREMENTS"),
		"other":     post(h, "/query?db=db0", "text/plain", "q=SHOW+MEASUREMENTS"),
		"in URL":    post(h, "/query?db=db0&q=SHOW+MEASUREMENTS", "application/x-www-form-urlencoded", ""),
		"body wins": post(h, "/query?q=SHOW+DATABASES", "application/x-www-form-urlencoded", "db=db0&q=SHOW+MEASUREMENTS"),
		"file": post(h, "/query?db=db0", "multipart/form-data; boundary=X",
			"--X\r\nContent-Disposition: form-data; name=\"q\"; filename=\"f\"\r\n\r\nSHOW MEASUREMENTS\r\n--X--\r\n"),
		"header": post(h, "/query", "", "q=SHOW+MEASUREMENTS", access.DatabaseHeader, "db0"),
	} {
		if got := bodyOf(t, r); r.StatusCode != 200 || got != want {
			t.Errorf("%s: %d %s", name, r.StatusCode, got)
		}
		if r.Header.Get(headerVersion) != version || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: header %v", name, r.Header)
		}
	}
	for name, r := range map[string]*http.Response{
		"typed": post(h, "/query?db=db0", "", "q=SHOW MEASUREMENTS; SHOW MEASUREMENTS"), "escaped": post(h, "/query?db=db0", "", "q=SHOW+MEASUREMENTS%3BSHOW+MEASUREMENTS"),
	} {
		if got := bodyOf(t, r); strings.Count(got, `["cpu"]`) != 2 {
			t.Errorf("two statements, %s: %d %s", name, r.StatusCode, got)
		}
	}
	if r := post(New(Options{Source: scantest.NewMemory(), Limits: Limits{BodyBytesMax: 10}}), "/query", "", "q=SHOW+DATABASES"); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", r.StatusCode)
	}
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, httptest.NewRequest("DELETE", "/query", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", w.Code)
	}
}

func TestPretty(t *testing.T) {
	_, got := get(t, newTwoHosts(t, nil), "SELECT usage FROM cpu LIMIT 1", "pretty", "true", "epoch", "s")
	want := `{
    "results": [
        {
            "statement_id": 0,
            "series": [
                {
                    "name": "cpu",
                    "columns": [
                        "time",
                        "usage"
                    ],
                    "values": [
                        [
                            946684800,
                            1.5
                        ]
                    ]
                }
            ]
        }
    ]
}`
	if got != want {
		t.Errorf("%s", got)
	}
}

func TestCSV(t *testing.T) {
	h := newTwoHosts(t, nil)
	q := url.Values{"q": {"SELECT * FROM cpu GROUP BY host; SELECT x(y) FROM cpu; SHOW MEASUREMENTS"}, "db": {"db0"}}.Encode()
	r := post(h, "/query?"+q, "", "", "Accept", "application/csv")
	want := `name,tags,time,idle,usage
cpu,host=a,946684800000000000,9,1.5
cpu,host=a,946684860000000000,,5
cpu,host=b,946684801000000000,,3

error
undefined function x()

error
not executed
`
	if got := bodyOf(t, r); got != want || r.Header.Get("Content-Type") != "application/csv" {
		t.Errorf("%s\n%s", r.Header.Get("Content-Type"), got)
	}
	for _, accept := range []string{"application/x-msgpack", "application/x-msgpack, */*", "image/png", ""} {
		if r := post(h, "/query?"+q, "", "", "Accept", accept); r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", accept, r.StatusCode, r.Header)
		}
	}
}

func TestChunked(t *testing.T) {
	h := newTwoHosts(t, nil)
	_, got := get(t, h, "SELECT usage FROM cpu; SELECT usage FROM cpu GROUP BY host; SELECT usage FROM nosuch; SELECT x(y) FROM cpu", "chunked", "true", "chunk_size", "2", "epoch", "s")
	want := `{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[946684800,1.5],[946684801,3]],"partial":true}],"partial":true}]}
{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[946684860,5]]}]}]}
{"results":[{"statement_id":1,"series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","usage"],"values":[[946684800,1.5],[946684860,5]]}],"partial":true}]}
{"results":[{"statement_id":1,"series":[{"name":"cpu","tags":{"host":"b"},"columns":["time","usage"],"values":[[946684801,3]]}]}]}
{"results":[{"statement_id":2}]}
{"results":[{"statement_id":3,"error":"undefined function x()"}]}`
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestLongAnswer: an answer that is out in part tells its error all the same.
func TestLongAnswer(t *testing.T) {
	m := scantest.NewMemory()
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&lines, "long value=%d 2000-01-01T%02d:%02d:%02dZ\n", i, i/3600, i/60%60, i%60)
	}
	put(t, m, "db0", lines.String())
	h := New(Options{Source: m, Limits: Limits{RowsMax: 15_000}})
	_, got := get(t, h, "SELECT value FROM long", "epoch", "s")
	if !strings.HasSuffix(got, `,[946699799,14999]]}],"partial":true}]}`) || strings.Count(got, "[9466") != 15_000 {
		t.Errorf("… %s", got[max(0, len(got)-200):])
	}
	gone := &failingSource{Source: m, after: 1}
	_, got = get(t, New(Options{Source: gone}), "SELECT value FROM long; SELECT value FROM long")
	if !strings.Contains(got, `"error":"the disk is gone"},{"statement_id":1,"error":"not executed"}`) {
		t.Errorf("… %s", got[max(0, len(got)-200):])
	}
}

// failingSource fails the scans after the first ones.
type failingSource struct {
	scan.Source
	after int
}

func (s *failingSource) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	if s.after--; s.after < 0 {
		return fmt.Errorf("the disk is gone")
	}
	return s.Source.Scan(ctx, r, visit)
}

func TestLimits(t *testing.T) {
	l := admission.New(admission.Options{Limits: admission.Limits{SamplesMax: 2, BytesMax: 1 << 20}})
	m := stored(t, twoHosts)
	h := New(Options{Source: l.Source(m), Admission: l, Limits: Limits{WindowsMax: 10}, Clock: testClock})
	for q, want := range map[string]string{
		"SELECT usage FROM cpu": "the query needs more than 2 samples",
		"SELECT mean(usage) FROM cpu WHERE time > '2000-01-01' AND time < '2000-01-02' GROUP BY time(1m)": "max-select-buckets limit exceeded: (1440/10)",
		"SELECT mean(usage) FROM cpu WHERE host = 'b' GROUP BY time(1h)":                                  "max-select-buckets limit exceeded",
	} {
		if _, got := get(t, h, q); !strings.Contains(got, want) {
			t.Errorf("%s: %s", q, got)
		}
	}
	const sparse = "SELECT mean(usage) FROM cpu WHERE host = 'b' AND time > '1970-01-02' AND time < '2000-01-02' GROUP BY time(1s) fill(none)"
	if _, got := get(t, h, sparse); !strings.Contains(got, `,3]]`) {
		t.Errorf("windows that nobody fills: %s", got)
	}
	small := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 100}})
	if _, got := get(t, New(Options{Source: m, Admission: small}), "SELECT usage FROM cpu GROUP BY host"); !strings.Contains(got, "the query needs more than 100 bytes") {
		t.Errorf("%s", got)
	}
	if n := len(small.Running()); n != 0 {
		t.Errorf("%d queries are left in admission control", n)
	}
}

// panickingSource has a bug.
type panickingSource struct{ scan.Source }

func (panickingSource) Scan(context.Context, *scan.Request, scan.Visitor) error { panic("a bug") }

// A query that panics, which net/http survives, gives its place back.
func TestPanicGivesThePlaceBack(t *testing.T) {
	l := admission.New(admission.Options{})
	h := New(Options{Source: panickingSource{stored(t, twoHosts)}, Admission: l, Clock: testClock})
	func() {
		defer func() { _ = recover() }()
		get(t, h, "SELECT usage FROM cpu")
		t.Error("nothing panicked")
	}()
	if n := len(l.Running()); n != 0 {
		t.Errorf("%d queries are left in admission control", n)
	}
}

// reader may read db0 and administer own.
type reader struct{}

func (reader) Name() string { return "ann" }
func (reader) May(database string, right access.Right) bool {
	return database == "own" || database == "db0" && right == access.Read
}

func TestRights(t *testing.T) {
	m := stored(t, twoHosts)
	h := New(Options{Source: m, Deleter: m})
	for q, allowed := range map[string]bool{
		"SELECT usage FROM cpu": true, "SELECT usage FROM other..cpu": false, "SELECT x FROM (SELECT usage AS x FROM other..cpu)": false,
		"SHOW DATABASES": true, "SHOW TAG KEYS": true, "SHOW TAG KEYS ON other": false, "DROP MEASUREMENT cpu": false, "DELETE FROM cpu": false,
		"CREATE DATABASE own": true, "CREATE DATABASE other": false, "DROP DATABASE db0": false, "SHOW USERS": false, "SHOW SERIES ON own": true,
		"SHOW MEASUREMENTS; DROP SERIES FROM cpu": false,
	} {
		r := httptest.NewRequest("POST", "/query?db=db0&q="+url.QueryEscape(q), nil)
		w := httptest.NewRecorder()
		access.Open(h).ServeHTTP(w, r.WithContext(access.With(r.Context(), reader{})))
		if denied := w.Code == http.StatusForbidden && strings.HasPrefix(w.Body.String(), `{"error":"error authorizing query: user \"ann\" has no `); denied == allowed {
			t.Errorf("%s: %d %s", q, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("GET", "/query?db=own&q=SHOW+TAG+KEYS;DROP+MEASUREMENT+cpu", nil)
	r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, ";", "%3B")
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, r.WithContext(access.With(r.Context(), reader{})))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a link deletes: %d %s", w.Code, w.Body)
	}
	r = httptest.NewRequest("GET", "/query?q=SHOW+DATABASES", nil)
	w = httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, r.WithContext(access.With(r.Context(), reader{})))
	if want := `"values":[["db0"]]`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s", w.Body)
	}
}

// A query counts for what it reads, and is shown to who may read all of that, whatever
// database the request names.
func TestQueriesAreBookedUnderWhatTheyRead(t *testing.T) {
	m := stored(t, twoHosts)
	var last admission.Query
	h := New(Options{Source: m, Admission: admission.New(admission.Options{Ended: func(q admission.Query, _ time.Duration) { last = q }})})
	for _, c := range []struct {
		request, q string
		want       string // databases, the one that is charged first
	}{
		{"db0", "SELECT usage FROM cpu", "db0"}, {"other", "SELECT usage FROM db0..cpu", "db0"}, {"db0", "SHOW SERIES ON own", "own"},
		{"db0", "SHOW MEASUREMENTS; SELECT x FROM (SELECT usage AS x FROM own..cpu), cpu", "db0 own"}, {"db0", "SHOW DATABASES", "db0"}, {"other", "SHOW DATABASES", "*"},
	} {
		r := httptest.NewRequest("GET", "/query?db="+c.request+"&q="+url.QueryEscape(c.q), nil)
		w := httptest.NewRecorder()
		access.Open(h).ServeHTTP(w, r.WithContext(access.With(r.Context(), reader{})))
		if got := strings.Join(append([]string{last.Database}, last.Others...), " "); w.Code != http.StatusOK || got != c.want {
			t.Errorf("%s: %d %q, want %q", c.q, w.Code, got, c.want)
		}
	}
}

// Who may not administer all that a query reads can neither see nor end it.
func TestQueriesOfSeveralDatabases(t *testing.T) {
	m := stored(t, twoHosts)
	l := admission.New(admission.Options{})
	h := New(Options{Source: m, Admission: l})
	ctx, entry, err := l.Begin(context.Background(), admission.Query{Database: "own", Others: []string{"db0"}, Text: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.End(nil)
	for _, q := range []string{"SHOW QUERIES", fmt.Sprintf("KILL QUERY %d", l.Running()[0].ID)} {
		r := httptest.NewRequest("POST", "/query?db=own&q="+url.QueryEscape(q), nil)
		w := httptest.NewRecorder()
		access.Open(h).ServeHTTP(w, r.WithContext(access.With(r.Context(), reader{})))
		if strings.Contains(w.Body.String(), "secret") || ctx.Err() != nil {
			t.Errorf("%s: %s", q, w.Body)
		}
	}
}

func TestConsistency(t *testing.T) {
	m := stored(t, twoHosts)
	var asked scan.Consistency
	h := New(Options{Source: m, WithConsistency: func(o scan.Consistency) (scan.Source, func() []uint16) {
		asked = o
		return m, func() []uint16 { return []uint16{3, 7} }
	}})
	r := post(h, "/query?db=db0&partial&stale_ms=1500", "", "q=SELECT+usage+FROM+cpu")
	if !asked.Partial || asked.StalenessMax.Milliseconds() != 1500 || r.Header.Get(consistency.MissingHeader) != "3,7" {
		t.Errorf("%+v %v", asked, r.Header)
	}
	if r := post(h, "/query?db=db0&stale_ms=x", "", "q=SELECT+usage+FROM+cpu"); r.StatusCode != 400 {
		t.Errorf("%d", r.StatusCode)
	}
}

func TestRefuseFlux(t *testing.T) {
	w := httptest.NewRecorder()
	RefuseFlux(w, httptest.NewRequest("POST", "/api/v2/query", nil))
	if w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), `"code":"not implemented"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
