package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

func connect(t *testing.T, s *testServer) *client.Client {
	t.Helper()
	// A cluster in one process has more listeners than startServer waits for.
	s.addr["grpc"] = fmt.Sprint(s.waitLog("listening", func(l map[string]any) bool { return l["port"] == "grpc" })["address"])
	c, err := client.New(client.Options{Endpoints: []string{s.addr["grpc"]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// contents returns the bits of all samples of a database by series, without the
// database, and time.
func contents(t *testing.T, c *client.Client, database string) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	q := client.Query{Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	for chunk, err := range c.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		for i, ms := range chunk.TimesMs {
			all[sampleName(chunk.Series, ms)] = math.Float64bits(chunk.Values[i])
		}
	}
	return all
}

func sampleName(s *client.Series, timeMs int64) string {
	return fmt.Sprintf("%q %q %d", s.Metric(), s.Tags(), timeMs)
}

// troublesome returns text that formats give a meaning to.
func troublesome(rnd *rand.Rand) string {
	parts := []string{"a", "ä", "\\", ",", " ", "=", `"`, "\n", "\r\n", "#", "#tickmesh ", "\x00", "\xff", "_field", "value", "{", "x", "7"}
	var b strings.Builder
	for range 1 + rnd.IntN(4) {
		b.WriteString(parts[rnd.IntN(len(parts))])
	}
	return b.String()
}

// randomSamples returns samples of every kind of names and values.
func randomSamples(t *testing.T, rnd *rand.Rand, database string, seriesCount int) []client.Sample {
	t.Helper()
	special := []uint64{0, 1 << 63, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff8000000000001, 0x7ff0000000000001, 0xffffffffffffffff, 1}
	var list []client.Sample
	for range seriesCount {
		tags := map[string]string{}
		for range rnd.IntN(4) {
			tags[troublesome(rnd)] = troublesome(rnd)
		}
		var of []client.Tag
		for name, value := range tags {
			of = append(of, client.Tag{Name: name, Value: value})
		}
		s, err := client.NewSeriesIn(database, troublesome(rnd), of...)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			bits := rnd.Uint64()
			switch rnd.IntN(3) {
			case 0:
				bits = special[rnd.IntN(len(special))]
			case 1:
				bits = math.Float64bits(float64(rnd.IntN(100_000)) / 100)
			}
			ms := rnd.Int64N(4e12) - 1e12
			if rnd.IntN(10) == 0 {
				ms = rnd.Int64N(scan.TimeMsMax)
			}
			list = append(list, client.Sample{Series: s, TimeMs: ms, Value: math.Float64frombits(bits)})
		}
	}
	return list
}

// TestExportImport moves random samples from one database to others by every format,
// and looks for each bit of them.
func TestExportImport(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	c := connect(t, s)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	list := randomSamples(t, rand.New(rand.NewPCG(seed, 0)), "from", 100)
	if err := c.Write(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{}
	for _, x := range list {
		want[sampleName(x.Series, x.TimeMs)] = math.Float64bits(x.Value)
	}
	same := func(what string, got map[string]uint64) {
		t.Helper()
		for name, bits := range want {
			if b, ok := got[name]; !ok || b != bits {
				t.Fatalf("%s: %s is %x, %v; want %x", what, name, b, ok, bits)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d samples, want %d", what, len(got), len(want))
		}
	}
	same("what was written", contents(t, c, "from"))
	for _, format := range []string{"line", "csv", "json"} {
		file := filepath.Join(t.TempDir(), "samples")
		code, stdout, stderr := run(t, nil, "export", "--addr", s.addr["grpc"], "--db", "from", "--format", format, "--out", file)
		if code != 0 || stdout != "" || !strings.HasPrefix(stderr, fmt.Sprintf("%d samples written", len(want))) {
			t.Fatalf("%d %q %q", code, stdout, stderr)
		}
		for range 2 { // a second time changes nothing
			code, stdout, stderr = run(t, nil, "import", "--addr", s.addr["grpc"], "--db", format, "--format", format, file)
			if code != 0 || stdout != "" || stderr != fmt.Sprintf("%d samples read\n", len(want)) {
				t.Fatalf("%d %q %q", code, stdout, stderr)
			}
			same(format, contents(t, c, format))
		}
	}
}

// TestClientAndHTTP reads by one API what was written by the other.
func TestClientAndHTTP(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	c := connect(t, s)
	w, err := c.NewWriter(client.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := client.MustSeries("cpu", client.Tag{Name: "host", Value: "a"}, client.Tag{Name: "_field", Value: "idle"})
	for i := range int64(3) {
		if err := w.Append(t.Context(), host, (1700000000+i)*1000, float64(i)/4); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, s.url("/api/query?start=1699999999&end=1700000005&m=sum:"+url.QueryEscape("cpu{_field=idle}")))
	if want := `"dps":{"1700000000":0.0,"1700000001":0.25,"1700000002":0.5}`; !strings.Contains(body, want) {
		t.Errorf("%s, want %s", body, want)
	}
	if status, body := post(t, s.url("/write?precision=s"), "cpu,host=a idle=7,busy=8 1700000003"); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	got := contents(t, c, "")
	if len(got) != 5 || got[sampleName(host, 1700000003000)] != math.Float64bits(7) {
		t.Errorf("%v", got)
	}
	if touched, err := c.Delete(t.Context(), scan.Selector{Metric: "cpu"}, 1700000003000, 1700000003000); err != nil || touched != 2 {
		t.Errorf("deleted from %d series, %v", touched, err)
	}
	if _, body := get(t, s.url("/api/query?start=1699999999&end=1700000005&m=count:cpu")); strings.Contains(body, "1700000003") || !strings.Contains(body, `"1700000002":1`) {
		t.Errorf("after a delete: %s", body)
	}
}

// TestClientCommands asks a standalone server by all commands.
func TestClientCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--shards=4")
	addr := "--addr=" + s.addr["grpc"]
	if status, _ := post(t, s.url("/write?precision=s"), "cpu,host=a value=1 1700000000\ncpu,host=b value=3 1700000060\n"); status != http.StatusNoContent {
		t.Fatal(status)
	}
	for _, test := range []struct {
		arguments string
		want      string // lines of standard output must have these, in this order
	}{
		{"query cpu{host=a} --start 2023-11-14", "cpu{host=a}|TIME VALUE|2023-11-14T22:13:20.000Z 1"},
		{"query cpu{!rack,host!=a} --start 1700000000 --end 1700000060000", "cpu{host=b}|TIME VALUE|2023-11-14T22:14:20.000Z 3"},
		{"query cpu{host=~a|x} --start 0 --window 1d --aggregate max,avg,count", "cpu{host=a}|TIME COUNT AVG MAX|2023-11-14T00:00:00.000Z 1 1 1"},
		{"query cpu{host} --start 2024-01-01", ""},
		// Series come by shard, and which one each has is drawn with the folder's key.
		{"export --format csv", "metric,tags,time_ms,value|cpu,host=a,1700000000000,1"},
		{"export --format csv", "metric,tags,time_ms,value|cpu,host=b,1700000060000,3"},
		{"status", "Cluster standalone|Nodes 1, 1 alive|Shards 4 in 1 copy, 0 without a leader"},
		{"nodes", "NODE STATE ADDRESS|standalone active"},
		{"shards", "SHARD LEADER|0 standalone|3 standalone"},
		{"undrain standalone", "standalone takes part again"},
	} {
		code, stdout, stderr := run(t, nil, append(strings.Fields(test.arguments), addr)...)
		lines := strings.Split(stdout, "\n")
		if code != 0 || strings.Contains(stderr, "tickmesh:") {
			t.Errorf("%s: %d %q", test.arguments, code, stderr)
		}
		for _, want := range strings.Split(test.want, "|") {
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.Join(strings.Fields(line), " "), want) })
			if at < 0 {
				t.Errorf("%s: no line %q in\n%s", test.arguments, want, stdout)
				break
			}
			lines = lines[at+1:]
		}
	}
	for command, told := range map[string]string{
		"status": "", "nodes": "", "shards": "", "query cpu --start 0": "", "query none": "no series that \"none\" picks have samples in this time\n",
	} {
		code, stdout, stderr := run(t, []string{"TICKMESH_ADDR=" + s.addr["grpc"]}, append(strings.Fields(command), "--output=json")...)
		if code != 0 || stderr != told || !json.Valid([]byte(stdout)) {
			t.Errorf("%s: %d %q %q", command, code, stdout, stderr)
		}
	}
	for arguments, want := range map[string]string{
		"drain standalone":             "tickmesh: refused: standalone is the only node",
		"drain other --dry-run":        "tickmesh: not found: ",
		"undrain other":                "tickmesh: not found: ",
		"query cpu{":                   "tickmesh: expected metric{name=value",
		"query cpu --aggregate median": `tickmesh: --aggregate: invalid value "median": expected some of count, sum`,
		"query cpu --start soon":       `tickmesh: --start: invalid value "soon": expected now`,
		"status --output xml":          `tickmesh: --output: invalid value "xml": expected one of table, json`,
		"status --tls-cert x":          `tickmesh: --tls-cert: invalid value "x": expected --tls-cert and --tls-key together`,
		"import no-such-file":          "tickmesh: open no-such-file: no such file",
		"query cpu{host=~(} --start 0": "tickmesh: ",
	} {
		code, stdout, stderr := run(t, nil, append(strings.Fields(arguments), addr)...)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, want) {
			t.Errorf("%s: %d %q %q, want %q", arguments, code, stdout, stderr, want)
		}
	}
}

// TestClientCommandsOfACluster asks three nodes in one process, and moves samples
// through them.
func TestClientCommandsOfACluster(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--nodes=3", "--replication=2", "--shards=8")
	c := connect(t, s)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	list := randomSamples(t, rand.New(rand.NewPCG(seed, 0)), "", 30)
	w, err := c.NewWriter(client.WriterOptions{BatchPoints: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := w.Append(t.Context(), x.Series, x.TimeMs, x.Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{}
	for _, x := range list {
		want[sampleName(x.Series, x.TimeMs)] = math.Float64bits(x.Value)
	}
	if got := contents(t, c, ""); !maps.Equal(got, want) {
		t.Errorf("%d samples, want %d", len(got), len(want))
	}
	addr := "--addr=" + s.addr["grpc"]
	var status client.Status
	code, stdout, stderr := run(t, nil, "status", "--output=json", addr)
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || code != 0 || len(status.Nodes) != 3 || status.Shards != 8 || status.Replication != 2 {
		t.Fatalf("%d %s %q, %v", code, stdout, stderr, err)
	}
	var shards []client.Shard
	_, stdout, _ = run(t, nil, "shards", "--output=json", addr)
	if err := json.Unmarshal([]byte(stdout), &shards); err != nil || len(shards) != 8 || len(shards[0].Members) != 3 {
		t.Errorf("%s, %v", stdout, err)
	}
	// With three nodes, copies and witnesses have no other place.
	if code, _, stderr := run(t, nil, "drain", status.Nodes[2].Node, "--dry-run", addr); code != 1 || !strings.HasPrefix(stderr, "tickmesh: refused: drain "+status.Nodes[2].Node+": ") {
		t.Errorf("%d %q", code, stderr)
	}
}
