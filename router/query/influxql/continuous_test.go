package influxql

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// newQueries returns continuous queries in a new folder.
func newQueries(t *testing.T) *continuous.Set {
	t.Helper()
	f, err := continuous.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return continuous.NewSet(f, slog.New(slog.DiscardHandler))
}

const makeMeans = `CREATE CONTINUOUS QUERY means ON db0 BEGIN SELECT mean("usage") INTO hourly FROM cpu GROUP BY time(1h), * END`

// TestContinuousQueries makes, shows and drops them.
func TestContinuousQueries(t *testing.T) {
	m := stored(t, intoLines)
	h := New(Options{Source: m, Deleter: m, Clock: testClock, Writer: &keeper{t: t, memory: m}, Continuous: newQueries(t)})
	const shown = `{"name":"db0","columns":["name","query"],"values":[["means","CREATE CONTINUOUS QUERY means ON db0 BEGIN SELECT mean(usage) INTO hourly FROM cpu GROUP BY time(1h), * END"]]}`
	for _, c := range []struct{ q, want string }{
		{makeMeans, ""},
		{makeMeans, ""},
		{"SHOW CONTINUOUS QUERIES", `"series":[` + shown + `,{"name":"default","columns":["name","query"]}]`},
		{strings.Replace(makeMeans, "1h", "2h", 1), `"error":"continuous query already exists"`},
		{strings.Replace(makeMeans, "db0", "none", 1), `"error":"database not found: none"`},
		{`CREATE CONTINUOUS QUERY q ON db0 BEGIN SELECT mean("usage") INTO long.cpu FROM cpu GROUP BY time(1h) END`, "choose another measurement"},
		{`CREATE CONTINUOUS QUERY q ON db0 BEGIN SELECT mood("usage") INTO m FROM cpu GROUP BY time(1h) END`, "undefined function mood()"},
		{`CREATE CONTINUOUS QUERY q ON db0 BEGIN SELECT count(value) INTO m FROM _series GROUP BY time(1h) END`, "unable to use system source"},
		{"DROP CONTINUOUS QUERY q ON db0", ""},
		{"DROP CONTINUOUS QUERY means ON db0", ""},
		{"SHOW CONTINUOUS QUERIES", `"series":[{"name":"db0","columns":["name","query"]},{"name":"default","columns":["name","query"]}]`},
		{strings.Replace(makeMeans, "db0", `""`, 1), ""}, // that of the request
		{"SHOW CONTINUOUS QUERIES", `"series":[` + shown},
		{"DROP DATABASE db0", ""},
		{"SHOW CONTINUOUS QUERIES", `"series":[{"name":"db0","columns":["name","query"]},{"name":"default","columns":["name","query"]}]`},
	} {
		got := bodyOf(t, post(h, "/query", "", url.Values{"q": {c.q}, "db": {"db0"}}.Encode()))
		if c.want == "" && strings.TrimSpace(got) != `{"results":[{"statement_id":0}]}` || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.q, got, c.want)
		}
	}
	if status, _ := get(t, h, makeMeans); status != http.StatusMethodNotAllowed {
		t.Errorf("by GET: %d", status)
	}
	if kept := h.Kept("db0"); kept != 0 {
		t.Errorf("kept for %s", kept)
	}
	if kept := New(Options{Source: m, Retention: func(database string) (time.Duration, bool) { return time.Hour, database == "db0" }}).Kept("db0"); kept != time.Hour {
		t.Errorf("kept for %s", kept)
	}
	without := New(Options{Source: m, Clock: testClock, Writer: &keeper{t: t, memory: m}})
	if got := bodyOf(t, post(without, "/query", "", url.Values{"q": {makeMeans}}.Encode())); !strings.Contains(got, "not offered here") {
		t.Error(got)
	}
}

// TestContinuousRights: a query is made and dropped by who administers its database; one that reads or writes another
// by who administers all.
func TestContinuousRights(t *testing.T) {
	m := stored(t, intoLines)
	h := New(Options{Source: m, Clock: testClock, Writer: &keeper{t: t, memory: m}, Continuous: newQueries(t)})
	const other = `CREATE CONTINUOUS QUERY other ON db0 BEGIN SELECT mean("usage") INTO db1..hourly FROM cpu GROUP BY time(1h) END`
	const inner = `CREATE CONTINUOUS QUERY inner ON db0 BEGIN SELECT mean("usage") INTO hourly FROM (SELECT usage FROM db1..cpu) GROUP BY time(1h) END`
	one, both := access.Confine(access.Anyone(), "db0"), someRights{admins: []string{"db0", "db1"}}
	foreign := access.Confine(access.Anyone(), "db1")
	reader := access.ReadOnly(access.Anyone())
	for _, c := range []struct {
		name    string
		who     access.Principal
		q       string
		allowed bool
	}{
		{"a reader", reader, makeMeans, false},
		{"who may all with two databases", both, other, false},
		{"who may all with two databases", both, inner, false},
		{"who may all with one", one, makeMeans, true},
		{"a reader", reader, "DROP CONTINUOUS QUERY means ON db0", false},
		{"who may all with another", foreign, "DROP CONTINUOUS QUERY means ON db0", false},
		{"who may all", access.Anyone(), other, true},
		{"who may all with one", one, "DROP CONTINUOUS QUERY other ON db0", true},
	} {
		status, body := callResource(h, c.who, http.MethodPost, "/query?"+url.Values{"q": {c.q}}.Encode(), "")
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[c.allowed]; status != want || strings.Contains(body, "error") == c.allowed {
			t.Errorf("%s by %s: %d %s", c.q, c.name, status, body)
		}
	}
}

// TestContinuousQueriesRun has one run, and reads what it has written.
func TestContinuousQueriesRun(t *testing.T) {
	m := stored(t, strings.ReplaceAll(intoLines, "T00:00", "T03:30"))
	queries := newQueries(t)
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Source: m, Writer: &keeper{t: t, memory: m}, Continuous: queries})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		service := continuous.New(continuous.Options{Set: queries})
		go func() { defer close(ended); service.Run(ctx, h) }()
		time.Sleep(3*time.Hour + time.Second/2) // the bubble begins at 2000-01-01
		if got := bodyOf(t, post(h, "/query", "", url.Values{"q": {makeMeans}}.Encode())); strings.Contains(got, "error") {
			t.Error(got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		_, got := get(t, h, "SELECT mean FROM hourly GROUP BY *", "epoch", "s")
		const want = `[{"name":"hourly","tags":{"dc":"","host":"b"},"columns":["time","mean"],"values":[[946695600,10]]},` +
			`{"name":"hourly","tags":{"dc":"x","host":"a"},"columns":["time","mean"],"values":[[946695600,2]]}]`
		if !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		cancel()
		<-ended
	})
}

// watching is a Writer that notes of which databases the queries are that run when something is written.
type watching struct {
	running func() []admission.Report
	seen    []string
}

func (w *watching) WriteSelected(context.Context, string, []byte) error {
	for _, r := range w.running() {
		r.All(func(database string) bool {
			w.seen = append(w.seen, access.Display(database))
			return true
		})
	}
	return nil
}

// TestContinuousOfDatabases: a run is of all databases that it reads and writes, the default one too: their limits hold, and who
// sees it needs rights on all of them.
func TestContinuousOfDatabases(t *testing.T) {
	m := stored(t, intoLines)
	limits := admission.New(admission.Options{})
	w := &watching{running: limits.Running}
	h := New(Options{Source: limits.Source(m), Admission: limits, Clock: testClock, Writer: w})
	s, err := ql.ParseStatement(`SELECT mean("usage") INTO "default"..hourly FROM cpu GROUP BY host`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.SelectInto(t.Context(), "db0", s.(*ql.SelectStatement)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.seen, " "); got != "db0 default" {
		t.Errorf("a run is of %s", got)
	}
}
