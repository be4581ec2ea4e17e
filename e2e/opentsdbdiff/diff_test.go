package opentsdbdiff

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

var (
	live    = flag.Bool("live", false, "ask a real OpenTSDB, which Maven fetches")
	many    = flag.Int("queries", 120, "random queries")
	seed    = flag.Uint64("seed", 1, "of the points and the queries")
	rewrite = flag.Bool("rewrite", false, "keep what OpenTSDB answers in "+recordedPath)
	logs    = flag.Bool("logs", false, "show the logs of HBase and OpenTSDB where the test fails")
	shown   = flag.Int("shown", 5, "differences of each kind that are shown")
)

const (
	recordedPath = "testdata/opentsdb-2.4.1.json"
	recordedOf   = "OpenTSDB 2.4.1 over HBase 1.4.14 on Java 17"
	recordedBy   = "go test -count=1 -run TestOpenTSDB ./e2e/opentsdbdiff -args -live -rewrite"
)

// recorded is what a real OpenTSDB answered.
type recorded struct {
	Of      string     `json:"of"`
	Command string     `json:"command"`
	Seed    uint64     `json:"seed"`
	Queries int        `json:"queries"`
	Asked   []exchange `json:"asked"`
}

type exchange struct {
	question
	Answer answer `json:"answer"`
}

// TestOpenTSDB compares with a real OpenTSDB.
func TestOpenTSDB(t *testing.T) {
	if !*live {
		t.Skip("without -live no OpenTSDB is started")
	}
	points, questions := makeAll(*seed, *many)
	theirs := startOpenTSDB(t)
	load(t, theirs, theirs, points)
	// Before the questions: some write two values at one time, and of such a metric OpenTSDB answers nothing any more.
	importAll(t, theirs, points)
	all := make([]exchange, len(questions))
	for i := range questions {
		a, err := ask(theirs, &questions[i])
		if err != nil {
			t.Fatalf("%s: %v", &questions[i], err)
		}
		a.Body = compact(a.Body)
		all[i] = exchange{questions[i], a}
	}
	if *rewrite {
		keep(t, &recorded{recordedOf, recordedBy, *seed, *many, all})
	}
	ours := startOurs(t, points)
	compareAll(t, ours, all)
	compareLast(t, theirs, ours.HTTPAddr)
}

// TestRecordedAnswers compares with what a real OpenTSDB answered.
func TestRecordedAnswers(t *testing.T) {
	text, err := os.ReadFile(recordedPath)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	points, questions := makeAll(r.Seed, r.Queries)
	for i := range questions {
		if i >= len(r.Asked) || questions[i] != r.Asked[i].question {
			t.Fatalf("the questions are others than when %s was written: %s", recordedPath, &questions[i])
		}
	}
	seen := compareAll(t, startOurs(t, points), r.Asked)
	for _, d := range differences() {
		if seen[d.name] == 0 && !d.rare {
			t.Errorf("%s: no answer differs so any more: it leaves the list", d.name)
		}
	}
}

// makeAll returns the points and the questions of a seed.
func makeAll(seed uint64, many int) ([]point, []question) {
	return makePoints(rand.New(rand.NewPCG(seed, 1))), makeQuestions(rand.New(rand.NewPCG(seed, 2)), many)
}

// keep writes what OpenTSDB answered, each exchange in a line of its own.
func keep(t *testing.T, r *recorded) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"of\":%q,\"command\":%q,\"seed\":%d,\"queries\":%d,\"asked\":[\n", r.Of, r.Command, r.Seed, r.Queries)
	for i := range r.Asked {
		line, err := json.Marshal(&r.Asked[i])
		if err != nil {
			t.Fatal(err)
		}
		if b.Write(line); i < len(r.Asked)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	if err := os.WriteFile(recordedPath, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startOurs starts a server of TickMesh with the points.
func startOurs(t *testing.T, points []point) *harness.Standalone {
	t.Helper()
	server := harnesstest.Standalone(t)
	load(t, server.HTTPAddr, server.PutAddr, points)
	return server
}

// compareLast asks both for last values of points of these minutes: of older ones OpenTSDB finds none.
func compareLast(t *testing.T, theirs, ours string) {
	t.Helper()
	nowS := time.Now().Unix() - 60
	points := []point{
		{"fresh", nowS * 1000, "1.5", map[string]string{"host": "a"}}, {"fresh", (nowS + 10) * 1000, "-2.25", map[string]string{"host": "a"}},
		{"fresh", (nowS + 5) * 1000, "3", map[string]string{"host": "b", "dc": "x"}},
	}
	for i := range points {
		body, err := json.Marshal(&points[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{theirs, ours} {
			if a, err := ask(address, &question{Method: "POST", Target: "/api/put?sync&summary", Body: string(body)}); err != nil || a.Status != 200 {
				t.Fatalf("%v %s", err, &a)
			}
		}
	}
	for _, q := range []question{
		{Method: "GET", Target: "/api/query/last?timeseries=fresh{host=a}&resolve=true&back_scan=2"},
		{Method: "GET", Target: "/api/query/last?timeseries=fresh{host=a}&back_scan=2"},
		{Method: "GET", Target: "/api/query/last?timeseries=fresh{host=b,dc=x}&timeseries=fresh{host=a}&resolve=true&back_scan=2"},
		{Method: "POST", Target: "/api/query/last", Body: `{"queries":[{"metric":"fresh","tags":{"host":"b","dc":"x"}}],"resolveNames":true,"backScan":2}`},
	} {
		want, err := ask(theirs, &q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(ours, &q)
		if err != nil {
			t.Fatal(err)
		}
		if reason := compare(&q, &want, &got); reason != "" || want.Body == "[]" {
			t.Errorf("%s: %s\n  opentsdb %s\n  tickmesh %s", &q, reason, &want, &got)
		}
	}
}

// compareAll asks a server of TickMesh what OpenTSDB was asked, and returns how many answers differ on purpose, by name.
func compareAll(t *testing.T, server *harness.Standalone, all []exchange) (passed map[string]int) {
	t.Helper()
	failures, passed := map[string]int{}, map[string]int{}
	for i := range all {
		q, want := &all[i].question, &all[i].Answer
		address := server.HTTPAddr
		if q.Kind == "line" {
			address = server.PutAddr
		}
		var got answer
		var reason, name string
		for _, form := range asked(q) {
			var err error
			if got, err = ask(address, form); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			if reason = compare(q, want, &got); reason == "" {
				break
			}
			if name = onPurpose(q, want, &got, reason); name != "" {
				passed[name]++
				break
			}
		}
		if reason == "" || name != "" {
			continue
		}
		if failures[q.Kind]++; failures[q.Kind] <= *shown {
			t.Errorf("%s: %s\n  %s\n  opentsdb %s\n  tickmesh %s", q.Kind, q, reason, want, &got)
		}
	}
	t.Logf("%d questions; failures: %v; on purpose: %v", len(all), failures, passed)
	return passed
}

// asked returns a question in the forms of which one has OpenTSDB's answer: for NaN as text, as OpenTSDB writes it, where null
// is the default; and for the percentiles epNNr3 and epNNr7 as OpenTSDB computes them, those of doubles as pNN.
func asked(q *question) []*question {
	changed := *q
	if path, _, _ := strings.Cut(q.Target, "?"); path == "/api/query" {
		changed.Target += "&nan=string"
		if path == q.Target {
			changed.Target = path + "?nan=string"
		}
	}
	legacy, estimated := changed, regexp.MustCompile(`ep(\d+)r[37]`)
	legacy.Target, legacy.Body = estimated.ReplaceAllString(changed.Target, "p$1"), estimated.ReplaceAllString(changed.Body, "p$1")
	if legacy == changed || q.Kind != "query" && q.Kind != "post" {
		return []*question{&changed}
	}
	return []*question{&legacy, &changed}
}

// load writes the points, half of them by HTTP, the others by lines, and waits until they can be read.
func load(t *testing.T, http, put string, points []point) {
	t.Helper()
	half := len(points) / 2
	for part := range slices.Chunk(points[:half], 40) {
		list := make([]*point, len(part))
		for i := range part {
			list[i] = &part[i]
		}
		body, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ask(http, &question{Method: "POST", Target: "/api/put?sync&details", Body: string(body)})
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %s", err, &a)
		}
	}
	var text strings.Builder
	for i := range points[half:] {
		text.WriteString(points[half+i].line() + "\n")
	}
	c, err := net.Dial("tcp", put)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text.String()+"exit\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c); err != nil || len(said) > 0 {
		t.Fatalf("%v %s", err, said)
	}
	want := map[string]int{}
	for i := range points {
		want[points[i].metric]++
	}
	for metric, n := range want {
		q := url.Values{"start": {fmt.Sprint(startS)}, "end": {fmt.Sprint(startS + spanS)}, "m": {"sum:0all-count:" + metric}}
		until := time.Now().Add(time.Minute)
		for {
			a, err := ask(http, &question{Method: "GET", Target: "/api/query?" + q.Encode()})
			if err == nil && (strings.Contains(a.Body, fmt.Sprintf(":%d}", n)) || strings.Contains(a.Body, fmt.Sprintf(":%d.0}", n))) {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%d points of %s cannot be read: %v %s", n, metric, err, &a)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
