package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// page is a handler over a storage in memory.
type page struct {
	http.Handler
	page      *Page
	t         *testing.T
	admission *admission.Controller
	registry  *prometheus.Registry
	status    *tickmeshv1.GetStatusResponse
	failing   error // what the cluster answers instead
	asked     int   // how often the cluster was asked
	now       time.Time
}

func newPage(t *testing.T, keys ...series.Key) *page {
	t.Helper()
	memory := scantest.NewMemory()
	for _, key := range keys {
		if err := memory.Put(key, series.Sample{TimeMs: 1000, Value: 1}); err != nil {
			t.Fatal(err)
		}
	}
	p := &page{
		t: t, admission: admission.New(admission.Options{SlowerThan: time.Hour}), registry: prometheus.NewRegistry(),
		status: &tickmeshv1.GetStatusResponse{}, now: time.UnixMilli(1_000_000),
	}
	handler, err := New(Options{
		Source: memory, Admission: p.admission, Gatherer: p.registry, Version: "1.2.3", Banner: "hello", Dialects: []string{"opentsdb"},
		Status: func(_ context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error) {
			if withoutShards {
				t.Error("the page needs shards")
			}
			p.asked++
			return p.status, p.failing
		},
		Clock: func() time.Time { return p.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Handler, p.page = handler, handler
	return p
}

func (p *page) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	access.Open(p).ServeHTTP(w, r)
	return w
}

// get asks for JSON as somebody, and returns the status.
func (p *page) get(path string, who access.Principal, into any) int {
	p.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if who != nil {
		r = r.WithContext(access.With(r.Context(), who))
	}
	w := p.do(r)
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		p.t.Errorf("%s: header %v", path, w.Header())
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		p.t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
	return w.Code
}

// somebody has one right on one database.
type somebody struct {
	database string
	right    access.Right
}

func (somebody) Name() string { return "ann" }
func (s somebody) May(database string, right access.Right) bool {
	return database == s.database && right <= s.right
}

func keys(metric string, n int) (list []series.Key) {
	for i := range n {
		list = append(list, scantest.Key("", metric, "host", fmt.Sprintf("h%03d", i), "zone", fmt.Sprint("z", i%3)))
	}
	return list
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Fatal("there is nothing to serve")
	}
}

func TestNames(t *testing.T) {
	list := append(keys("cpu", 12), scantest.Key("", "memory", "host", "h001"), scantest.Key("other", "secret", "x", "y"))
	p := newPage(t, list...)
	for path, want := range map[string]string{
		"metrics":                                `{"names":["cpu","memory"],"more":false}`,
		"metrics?limit=1":                        `{"names":["cpu"],"more":true}`,
		"metrics?prefix=me":                      `{"names":["memory"],"more":false}`,
		"metrics?prefix=none":                    `{"names":[],"more":false}`,
		"metrics?contains=EMO":                   `{"names":["memory"],"more":false}`,
		"metrics?contains=m&limit=1":             `{"names":["memory"],"more":false}`,
		"metrics?contains=&limit=1":              `{"names":["cpu"],"more":true}`,
		"metrics?contains=p&prefix=m":            `{"names":[],"more":false}`,
		"metrics?db=other":                       `{"names":["secret"],"more":false}`,
		"metrics?db=default":                     `{"names":["cpu","memory"],"more":false}`,
		"names?kind=metric&prefix=c":             `{"names":["cpu"],"more":false}`,
		"names?kind=tag&metric=memory":           `{"names":["host"],"more":false}`,
		"names?kind=value&metric=cpu&tag=zone":   `{"names":["z0","z1","z2"],"more":false}`,
		"names?kind=value&tag=host&limit=2":      `{"names":["h000","h001"],"more":true}`,
		"databases":                              `{"names":["default","other"],"more":false}`,
		"counts?metric=memory&metric=cpu":        `{"series":[1,12]}`,
		"counts?of=cpu&tag=zone&value=z1":        `{"series":[4]}`,
		"counts":                                 `{"series":[]}`,
		"counts?all=1":                           `{"series":[13]}`,
		"counts?all=1&db=other&metric=secret":    `{"series":[1,1]}`,
		"about":                                  `{"version":"1.2.3","dialects":["opentsdb"],"database":"default","user":"","admin":true}`,
		"tags?metric=memory":                     `{"metric":"memory","series":1,"tags":[{"name":"host","values":1,"more":false,"first":["h001"]}],"more":false}`,
		"names?kind=value&metric=none&tag=other": `{"names":[],"more":false}`,
	} {
		var got json.RawMessage
		if status := p.get("/ui/api/"+path, nil, &got); status != http.StatusOK || string(got) != want {
			t.Errorf("%s: %d %s, want %s", path, status, got, want)
		}
	}
	for path, status := range map[string]int{
		"metrics?limit=0": 400, "metrics?limit=x": 400, "metrics?limit=5001": 400, "names?kind=x": 400, "tags": 400, "nothing": 404,
		"counts?" + strings.Repeat("metric=cpu&", countsMax+1): 400,
	} {
		var got struct{ Error string }
		if code := p.get("/ui/api/"+path, nil, &got); code != status || got.Error == "" {
			t.Errorf("%s: %d %q", path, code, got.Error)
		}
	}
	if running := p.admission.Running(); len(running) != 0 {
		t.Fatal("queries were not ended", running)
	}
}

// Databases that were made and have no series yet are listed, too.
func TestDatabasesMade(t *testing.T) {
	p := newPage(t, keys("cpu", 1)...)
	p.page.handler.Databases = func(context.Context) ([]string, error) { return []string{"", "made"}, nil }
	var got json.RawMessage
	if p.get("/ui/api/databases", nil, &got); string(got) != `{"names":["default","made"],"more":false}` {
		t.Errorf("%s", got)
	}
	if p.get("/ui/api/databases", somebody{"made", access.Read}, &got); string(got) != `{"names":["made"],"more":false}` {
		t.Errorf("%s", got)
	}
}

// What a caller may not read is neither told nor counted.
func TestRights(t *testing.T) {
	p := newPage(t, append(keys("cpu", 2), scantest.Key("other", "secret", "x", "y"))...)
	ann := somebody{"other", access.Read}
	var got json.RawMessage
	for path, status := range map[string]int{
		"metrics": 403, "names?kind=metric": 403, "counts?metric=cpu": 403, "tags?metric=cpu": 403,
		"metrics?db=other": 200, "status": 200, "live": 200, "history": 200, "about": 200, "databases": 200, "queries": 200,
	} {
		if code := p.get("/ui/api/"+path, ann, &got); code != status {
			t.Errorf("%s: %d %s", path, code, got)
		}
	}
	if p.get("/ui/api/databases", ann, &got); string(got) != `{"names":["other"],"more":false}` {
		t.Errorf("databases: %s", got)
	}
	if p.get("/ui/api/about?db=other", ann, &got); !strings.Contains(string(got), `"user":"ann","admin":false`) {
		t.Errorf("about: %s", got)
	}
}

func TestQueries(t *testing.T) {
	p := newPage(t)
	begin := func(database string) (context.Context, *admission.Entry) {
		ctx, entry, err := p.admission.Begin(context.Background(), admission.Query{Dialect: "promql", Database: database, Text: "up", User: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		return ctx, entry
	}
	ctx, mine := begin("")
	defer mine.End(nil)
	_, hidden := begin("other")
	defer hidden.End(nil)
	ann := somebody{"", access.Read}
	var seen queriesView
	p.get("/ui/api/queries", ann, &seen)
	if len(seen.Running) != 1 || seen.Hidden != 1 || seen.Running[0].Text != "up" || seen.Running[0].Database != "default" || seen.Running[0].MayCancel {
		t.Fatalf("%+v", seen)
	}
	cancel := func(who access.Principal) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://tick.example/ui/api/cancel?id="+seen.Running[0].ID, nil)
		w := p.do(r.WithContext(access.With(r.Context(), who)))
		return w.Code, w.Body.String()
	}
	if status, text := cancel(ann); status != http.StatusForbidden || !strings.Contains(text, "admin") {
		t.Fatal(status, text)
	}
	admin := somebody{"", access.Admin}
	if status, text := cancel(admin); status != http.StatusOK || text != "{\"canceled\":true}\n" || ctx.Err() == nil {
		t.Fatal(status, text)
	}
	seen.Running[0].ID = "999"
	if status, text := cancel(admin); status != http.StatusOK || text != "{\"canceled\":false}\n" {
		t.Fatal(status, text)
	}
	seen.Running[0].ID = url.QueryEscape("x")
	if status, _ := cancel(admin); status != http.StatusBadRequest {
		t.Fatal(status)
	}
}

func TestStatus(t *testing.T) {
	p := newPage(t)
	full, witness := tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, tickmeshv1.ReplicaRole_REPLICA_ROLE_WITNESS
	p.status = &tickmeshv1.GetStatusResponse{
		Cluster: "c", Shards: 1, Replication: 2, Problems: []string{"something"},
		Nodes: []*tickmeshv1.NodeStatus{{Node: "n1", Zone: "z", Alive: true, SamplesApplied: 7, Desired: tickmeshv1.DesiredState_DESIRED_STATE_DRAINING}},
		ShardStatuses: []*tickmeshv1.ShardStatus{{
			Leader: "n1", CommitIndex: 10,
			Members: []*tickmeshv1.ReplicaStatus{{Node: "n1", Role: full, MatchIndex: 12, Active: true}, {Node: "n2", Role: witness, MatchIndex: 4}},
		}},
		Moves:      []*tickmeshv1.Move{{ToNode: "n3", TotalBytes: 5}},
		MovesAhead: &tickmeshv1.MovesAhead{Moves: 1, TotalBytes: 5},
	}
	var got statusView
	if status := p.get("/ui/api/status", nil, &got); status != http.StatusOK {
		t.Fatal(status)
	}
	members := got.Groups[0].Members
	if members[0] != (memberView{"n1", "full", true, 0}) || members[1] != (memberView{"n2", "witness", false, 6}) {
		t.Errorf("members: %+v", members)
	}
	if n := got.Nodes[0]; n.Desired != "draining" || n.SamplesApplied != 7 || !n.Alive || got.MovesAhead.Moves != 1 || got.Moves[0].To != "n3" || got.Problems[0] != "something" {
		t.Errorf("%+v", got)
	}
	// Many pages cost no more than one, and nobody sees what is old.
	p.get("/ui/api/status", nil, &got)
	p.now = p.now.Add(snapshotAgeMax - 1)
	p.get("/ui/api/status", nil, &got)
	if p.asked != 1 {
		t.Errorf("the cluster was asked %d times", p.asked)
	}
	p.now = p.now.Add(1)
	if p.get("/ui/api/status", nil, &got); p.asked != 2 || got.TimeMs != p.now.UnixMilli() {
		t.Errorf("asked %d times, told of %d", p.asked, got.TimeMs)
	}
}

// A node that dies stays where it was drawn; one that is gone is forgotten.
func TestDeadNodeStaysInItsZone(t *testing.T) {
	p := newPage(t)
	look := func(nodes ...*tickmeshv1.NodeStatus) []nodeView {
		p.status, p.now = &tickmeshv1.GetStatusResponse{Nodes: nodes}, p.now.Add(snapshotAgeMax)
		var got statusView
		p.get("/ui/api/status", nil, &got)
		return got.Nodes
	}
	alive := &tickmeshv1.NodeStatus{Node: "n1", Alive: true, Zone: "z", Address: "a", Version: "1", CapacityBytes: 9}
	dead := &tickmeshv1.NodeStatus{Node: "n1"}
	look(alive, &tickmeshv1.NodeStatus{Node: "n2", Alive: true, Zone: "y"})
	for range 2 {
		if n := look(dead)[0]; n.Zone != "z" || n.Address != "a" || n.Version != "1" || n.Alive || n.CapacityBytes != 0 {
			t.Fatalf("%+v", n)
		}
	}
	if n := look(&tickmeshv1.NodeStatus{Node: "n1", Alive: true})[0]; n.Zone != "" {
		t.Fatalf("what a live node tells counts: %+v", n)
	}
	if n := look(&tickmeshv1.NodeStatus{Node: "n2"})[0]; n.Zone != "" {
		t.Fatalf("it was gone in the meantime: %+v", n)
	}
}

func TestRecoveryText(t *testing.T) {
	for _, recovery := range []*tickmeshv1.ShardRecovery{nil, {Automatic: true}, {}, {Best: "n1"}, {Best: "n1", Lost: true}} {
		if text := recoveryText(recovery); (text == "") != (recovery == nil) {
			t.Errorf("%v: %q", recovery, text)
		}
	}
}

func TestLive(t *testing.T) {
	p := newPage(t)
	points := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPoints}, []string{"protocol", "outcome"})
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricQueries}, []string{"dialect"})
	resident := prometheus.NewGauge(prometheus.GaugeOpts{Name: metricResident})
	p.registry.MustRegister(points, ended, resident)
	points.WithLabelValues("put", "accepted").Add(5)
	points.WithLabelValues("put", "refused").Add(2)
	ended.WithLabelValues("promql").Add(3)
	ended.WithLabelValues(dialect).Add(9) // the page's own are no queries of people
	resident.Set(11)
	var got liveView
	p.get("/ui/api/live", nil, &got)
	if got.Points["put"] != 5 || got.Refused != 2 || got.QueriesEnded != 3 || got.ResidentBytes != 11 || got.TimeMs != p.now.UnixMilli() {
		t.Fatalf("%+v", got)
	}
}
