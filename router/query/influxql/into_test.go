package influxql

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/prompb"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// keeper writes into a memory. Prometheus' own decoder reads the requests.
type keeper struct {
	t        *testing.T
	memory   *scantest.Memory
	requests int
	fail     error
}

func (k *keeper) WriteSelected(_ context.Context, database string, request []byte) error {
	if k.fail != nil && k.requests > 0 {
		return k.fail
	}
	k.requests++
	var decoded prompb.WriteRequest
	if err := decoded.Unmarshal(request); err != nil {
		k.t.Fatal(err)
	}
	for _, s := range decoded.Timeseries {
		metric := ""
		var tags []series.Tag
		for _, l := range s.Labels {
			if l.Name == "__name__" {
				metric = l.Value
				continue
			}
			tags = append(tags, series.Tag{Name: []byte(l.Name), Value: []byte(l.Value)})
		}
		key := series.AppendKey(nil, []byte(database), []byte(metric), tags)
		for _, sample := range s.Samples {
			if err := k.memory.Put(key, series.Sample{TimeMs: sample.Timestamp, Value: sample.Value}); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	return nil
}

const intoLines = `
cpu,host=a,dc=x usage=1,idle=9 2000-01-01T00:00:00Z
cpu,host=a,dc=x usage=3 2000-01-01T00:00:30Z
cpu,host=b usage=10,value=4 2000-01-01T00:00:10Z
mem,host=a free=7 1969-12-31T23:59:59.500Z`

// TestSelectInto writes and reads what was written.
func TestSelectInto(t *testing.T) {
	for _, c := range []struct{ into, written, read, want string }{
		{"SELECT mean(usage) INTO means FROM cpu WHERE time >= '2000-01-01' AND time < '2000-01-01T00:01:00Z' GROUP BY time(1m), host", "2", "SELECT * FROM means GROUP BY *",
			`{"name":"means","tags":{"host":"a"},"columns":["time","mean"],"values":[[946684800000,2]]},{"name":"means","tags":{"host":"b"},"columns":["time","mean"],"values":[[946684800000,10]]}`},
		{"SELECT usage, idle INTO db1.autogen.copies FROM cpu GROUP BY *", "3", "SELECT usage, idle, host FROM db1.autogen.copies",
			`{"name":"copies","columns":["time","usage","idle","host"],"values":[[946684800000,1,9,"a"],[946684810000,10,null,"b"],[946684830000,3,null,"a"]]}`},
		{"SELECT * INTO db1..:MEASUREMENT FROM /cpu|mem/ GROUP BY *", "4", "SELECT usage, value FROM db1..cpu; SELECT free FROM db1..mem",
			`{"name":"cpu","columns":["time","usage","value"],"values":[[946684800000,1,null],[946684810000,10,4],[946684830000,3,null]]}]},{"statement_id":1,"series":[{"name":"mem","columns":["time","free"],"values":[[-500,7]]}`},
		{"SELECT max(usage) AS value INTO peak FROM cpu", "1", "SELECT value FROM peak", `{"name":"peak","columns":["time","value"],"values":[[946684810000,10]]}`},
		{"SELECT top(usage, host, 2) INTO most FROM cpu", "2", "SELECT * FROM most GROUP BY *",
			`{"name":"most","tags":{"host":"a"},"columns":["time","top"],"values":[[946684830000,3]]},{"name":"most","tags":{"host":"b"},"columns":["time","top"],"values":[[946684810000,10]]}`},
		{"SELECT bottom(usage, dc, 2), idle INTO least FROM cpu GROUP BY host", "2", "SELECT * FROM least GROUP BY *",
			`{"name":"least","tags":{"dc":"","host":"b"},"columns":["time","bottom","idle"],"values":[[946684810000,10,null]]},{"name":"least","tags":{"dc":"x","host":"a"},"columns":["time","bottom","idle"],"values":[[946684800000,1,9]]}`},
		{"SELECT top(usage, host, 2) INTO again FROM cpu GROUP BY host", "2", "SELECT * FROM again GROUP BY *",
			`{"name":"again","tags":{"host":"a"},"columns":["time","top"],"values":[[946684830000,3]]},{"name":"again","tags":{"host":"b"},"columns":["time","top"],"values":[[946684810000,10]]}`},
		{"SELECT count(usage), mean(usage) INTO counts FROM cpu WHERE time >= '2000-01-01' AND time < '2000-01-01T00:01:00Z' GROUP BY time(15s)", "2", "SELECT * FROM counts",
			`{"name":"counts","columns":["time","count","mean"],"values":[[946684800000,2,5.5],[946684830000,1,3]]}`},
		{"SELECT count(usage) INTO zeros FROM cpu WHERE time >= '2000-01-01' AND time < '2000-01-01T00:01:00Z' GROUP BY time(15s) fill(0)", "4", "SELECT * FROM zeros",
			`{"name":"zeros","columns":["time","count"],"values":[[946684800000,2],[946684815000,0],[946684830000,1],[946684845000,0]]}`},
		{"SELECT usage INTO nothing FROM cpu WHERE usage > 100", "0", "SELECT * FROM nothing", ""},
	} {
		m := stored(t, intoLines)
		h := New(Options{Source: m, Clock: testClock, Writer: &keeper{t: t, memory: m}})
		r := post(h, "/query?db=db0&epoch=ms", "", url.Values{"q": {c.into}}.Encode())
		want := `{"results":[{"statement_id":0,"series":[{"name":"result","columns":["time","written"],"values":[[0,` + c.written + `]]}]}]}`
		if got := strings.TrimSpace(bodyOf(t, r)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.into, got, want)
		}
		_, got := get(t, h, c.read, "epoch", "ms")
		want = `{"results":[{"statement_id":0,"series":[` + c.want + `]}]}`
		if c.want == "" {
			want = `{"results":[{"statement_id":0}]}`
		}
		if got != want {
			t.Errorf("%s, %s:\n got %s\nwant %s", c.into, c.read, got, want)
		}
	}
}

// TestSelectIntoInParts: what is much is written in parts, and an error says how many rows are written.
func TestSelectIntoInParts(t *testing.T) {
	m := scantest.NewMemory()
	key := series.AppendKey(nil, []byte("db0"), []byte("long"), []series.Tag{{Name: []byte("_field"), Value: []byte("f")}})
	const rows = 150_000
	samples := make([]series.Sample, rows)
	for i := range samples {
		samples[i] = series.Sample{TimeMs: int64(i) * 1000, Value: float64(i)}
	}
	if err := m.Put(key, samples...); err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, memory: m}
	h := New(Options{Source: m, Clock: testClock, Writer: k})
	ask := func(q string) string {
		return bodyOf(t, post(h, "/query?db=db0", "", url.Values{"q": {q}}.Encode()))
	}
	if got := ask("SELECT f INTO copy FROM long"); !strings.Contains(got, fmt.Sprintf(",%d]]", rows)) || k.requests < 2 {
		t.Error(got, k.requests)
	}
	if _, got := get(t, h, "SELECT count(f), sum(f) FROM copy"); !strings.Contains(got, fmt.Sprintf(",%d,%d]]", rows, int64(rows)*(rows-1)/2)) {
		t.Error(got)
	}
	k.requests, k.fail = 0, errors.New("the disk is full")
	if got := ask("SELECT f INTO again FROM long; SHOW MEASUREMENTS"); !strings.Contains(got, "the disk is full (") || !strings.Contains(got, "rows were written before)") || strings.Contains(got, "(0 rows") || !strings.Contains(got, "not executed") {
		t.Error(got)
	}
}

// TestSelectIntoRefused: who may not write, texts, GET.
func TestSelectIntoRefused(t *testing.T) {
	m := stored(t, intoLines)
	k := &keeper{t: t, memory: m}
	h := New(Options{Source: m, Clock: testClock, Writer: k})
	if status, got := get(t, h, "SELECT usage INTO x FROM cpu"); status != http.StatusMethodNotAllowed {
		t.Error(status, got)
	}
	if got := bodyOf(t, post(h, "/query?db=db0", "", url.Values{"q": {"SELECT usage, host INTO x FROM cpu"}}.Encode())); !strings.Contains(got, `field \"host\" would be a text`) {
		t.Error(got)
	}
	if got := bodyOf(t, post(h, "/query?db=db0", "", url.Values{"q": {"EXPLAIN SELECT usage INTO x FROM cpu"}}.Encode())); !strings.Contains(got, "READ: cpu") {
		t.Error(got)
	}
	if k.requests != 0 {
		t.Error(k.requests)
	}
	statements, err := newHandler(Options{Source: m}).parse(t.Context(), "SELECT usage INTO db1..x FROM db2..cpu", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := needsOf(statements[0], "db0"), []need{{"db1", access.Write}, {"db2", access.Read}}; !slices.Equal(got, want) {
		t.Error(got)
	}
}
