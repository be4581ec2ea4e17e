package migrate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// waitMax is how long a database may take to start, or an import to end.
const waitMax = 2 * time.Minute

// name is a series and a time.
type name struct {
	series string // as client.Series.String, without the database
	timeMs int64
}

// contents are the bits of values.
type contents map[name]uint64

func (c contents) add(s *client.Series, timeMs int64, value float64) {
	c[name{s.String(), timeMs}] = math.Float64bits(value)
}

// cluster is the destination.
type cluster struct {
	*testing.T
	binary string
	grpc   string
	http   string
	client *client.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	server := harnesstest.Standalone(t, "--grpc-addr", free[0])
	c, err := client.New(client.Options{Endpoints: free})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &cluster{t, harnesstest.Build(t), free[0], server.HTTPAddr, c}
}

// contents returns all samples of a database.
func (c *cluster) contents(database string) contents {
	c.Helper()
	all := contents{}
	q := client.Query{Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	for chunk, err := range c.client.Query(c.Context(), q) {
		if err != nil {
			c.Fatal(err)
		}
		series, err := client.NewSeries(chunk.Series.Metric(), chunk.Series.Tags()...)
		if err != nil {
			c.Fatal(err)
		}
		for i, ms := range chunk.TimesMs {
			all.add(series, ms, chunk.Values[i])
		}
	}
	return all
}

// command returns an import that has not begun.
func (c *cluster) command(args ...string) *exec.Cmd {
	return exec.CommandContext(c.Context(), c.binary, append([]string{"import", "--addr", c.grpc}, args...)...)
}

// run imports.
func (c *cluster) run(args ...string) (code int, stderr string) {
	c.Helper()
	cmd := c.command(args...)
	var told bytes.Buffer
	cmd.Stderr = &told
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), told.String()
}

// same fails where the cluster has something else in a database.
func (c *cluster) same(database string, want contents) {
	c.Helper()
	got := c.contents(database)
	missing, wrong := 0, 0
	for of, bits := range want {
		found, ok := got[of]
		switch {
		case !ok:
			if missing++; missing == 1 {
				c.Errorf("%v is missing", of)
			}
		case found != bits:
			if wrong++; wrong == 1 {
				c.Errorf("%v is %x, want %x", of, found, bits)
			}
		}
	}
	if missing > 0 || wrong > 0 || len(got) != len(want) {
		c.Fatalf("%s: %d samples, want %d: %d are missing, %d wrong", database, len(got), len(want), missing, wrong)
	}
}

// start starts a database and waits until it answers.
func start(t *testing.T, program, packageName, ready string, args ...string) {
	t.Helper()
	path, err := harness.Install(t.Context(), program, packageName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := harness.StartProcess(harness.ProcessOptions{Path: path, Args: args, LogPath: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	if err := harness.WaitReady(ctx, p, ready); err != nil {
		t.Fatalf("%v\n%s", err, p.LogTail(4096))
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

func get(t *testing.T, address string) []byte {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered by %d: %v %s", address, response.StatusCode, err, text)
	}
	return text
}

func post(t *testing.T, address string, header http.Header, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode/100 != 2 {
		t.Fatalf("%s is answered by %d: %s", address, response.StatusCode, text)
	}
}

// write is what databases are filled with: metrics of some series with a sample every so often, with values that are
// hard to keep, gaps and staleness markers.
func write(fromMs, stepMs int64, samples int, special ...float64) (prompb.WriteRequest, contents) {
	var request prompb.WriteRequest
	all := contents{}
	for metric := range 5 {
		for host := range 4 {
			s := client.MustSeries(fmt.Sprintf("metric_%d", metric), client.Tag{Name: "host", Value: fmt.Sprintf("hö\"st\\ %d", host)}, client.Tag{Name: "job", Value: "x"})
			series := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: s.Metric()}}}
			for _, tag := range s.Tags() {
				series.Labels = append(series.Labels, prompb.Label{Name: tag.Name, Value: tag.Value})
			}
			for i := range samples {
				if (i+host)%17 == 0 {
					continue
				}
				v := special[(i*7+host+metric)%len(special)] // every tenth of them a step of a counter
				if i%2 == 0 {
					v = float64(i*metric) + 0.25
				}
				if i%50 == 49 {
					v = math.Float64frombits(0x7ff0000000000002)
				}
				ms := fromMs + int64(i)*stepMs + int64(host)
				series.Samples = append(series.Samples, prompb.Sample{Timestamp: ms, Value: v})
				all.add(s, ms, v)
			}
			request.Timeseries = append(request.Timeseries, series)
		}
	}
	return request, all
}

func remoteWrite(t *testing.T, base string, request *prompb.WriteRequest) {
	t.Helper()
	body, err := request.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	post(t, base+"/api/v1/write", http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"},
		"X-Prometheus-Remote-Write-Version": {"0.1.0"}}, snappy.Encode(nil, body))
}

// migrated imports into a fresh database and looks at what is told.
func (c *cluster) migrated(database string, want contents, args ...string) {
	c.Helper()
	checkpoint := filepath.Join(c.TempDir(), "checkpoint")
	code, told := c.run(append(args, "--db", database, "--checkpoint", checkpoint)...)
	if code != 0 || !strings.HasPrefix(told, fmt.Sprintf("%d samples copied, %d compared\n", len(want), len(want))) {
		c.Fatalf("%d %s", code, told)
	}
	c.same(database, want)
	if _, err := os.Stat(checkpoint); err == nil {
		c.Error("the checkpoint is still there")
	}
}

// differs puts a sample more into the cluster, and sees that an import without it tells so.
func (c *cluster) differs(database string, fromMs int64, args ...string) {
	c.Helper()
	s, err := client.NewSeriesIn(database, "metric_1", client.Tag{Name: "host", Value: "more"})
	if err != nil {
		c.Fatal(err)
	}
	if err := c.client.Write(c.Context(), client.Sample{Series: s, TimeMs: fromMs + 1, Value: 3}); err != nil {
		c.Fatal(err)
	}
	code, told := c.run(append(args, "--db", database, "--names", "metric_[01]", "--checkpoint", filepath.Join(c.TempDir(), "checkpoint"))...)
	if code != 1 || strings.Count(told, "\ndiffers: metric_1, ") != 1 || strings.Contains(told, "differs: metric_0") || !strings.Contains(told, "1 steps differ") {
		c.Errorf("%d %s", code, told)
	}
}

func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs Prometheus")
	}
	c := newCluster(t)
	address, dir := freeAddress(t), t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://" + address
	start(t, "prometheus", "prometheus", base+"/-/ready", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--web.enable-remote-write-receiver")
	// Prometheus takes no samples much older than its newest, nor from the future.
	fromMs := time.Now().Add(-50*time.Minute).UnixMilli() / 1000 * 1000
	request, want := write(fromMs, 5000, 500, 0.1, -0.5, 1e300, 5e-324, 123456789.125, math.Inf(1), math.Inf(-1), 0, 1<<53, -20.15)
	remoteWrite(t, base, &request)
	from := []string{"--from", "prometheus", base}
	c.migrated("whole", want, from...)
	c.migrated("steps", want, append(from, "--step", "7m")...)
	c.differs("whole", fromMs, append(from, "--start", fmt.Sprint(fromMs))...)
	c.killed(want, base, "/api/v1/read", append(from, "--step", "7m"))
}

func startVictoriaMetrics(t *testing.T) (base string) {
	t.Helper()
	address := freeAddress(t)
	base = "http://" + address
	start(t, "victoria-metrics", "victoria-metrics", base+"/health", "-storageDataPath="+t.TempDir(), "-httpListenAddr="+address, "-retentionPeriod=100y")
	return base
}

// TestImports sends the same text to VictoriaMetrics and to ours, and compares what both have then.
func TestImports(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs VictoriaMetrics")
	}
	c := newCluster(t)
	base := startVictoriaMetrics(t)
	const ms = 1_717_070_400_000
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "# HELP metric_%d what\n\tmetric_%d { host = \"h\\\"\\\\\\n%d\", job=\"x\",empty=\"\",}  %v\t%d \r\n", i%5, i%5, i%7, float64(i)/4-9, ms+i*1000)
		fmt.Fprintf(&text, "plain.dotted-%d %d\nup{} -Inf %d # {trace_id=\"x\"} 1\n", i%3, i%3, ms+i)
	}
	var table strings.Builder
	table.WriteString("time,host,temp,job,note,hum\n")
	for i := range 2000 { // Debian's VictoriaMetrics refuses rows with a metric that is empty, which later ones take
		fmt.Fprintf(&table, "%d,\"h\"\"%d, 'x'\",%v,j,,%d,more\r\n", ms/1000+i, i%3, float64(i)/4-9, i)
		fmt.Fprintf(&table, "%d,,%d,,n,%d\n", ms/1000+i, i, i)
	}
	const columns = "1:time:unix_s,2:label:host,3:metric:temp,4:label:job,6:metric:hum"
	for n, test := range []struct{ path, body string }{
		{"/api/v1/import/csv?format=" + columns, table.String()},
		{"/api/v1/import/csv?extra_label=job=y&format=1:time:rfc3339,2:metric:m,3:label:job", "2024-05-30T14:00:00.25+02:00,1,x\n2024-05-30T12:00:01Z,2,x\n"},
		{"/api/v1/import/csv?format=1:time:custom:2006-01-02%2015:04:05.000,2:metric:m", "2024-05-30 12:00:00.250,1\n"},
		{"/api/v1/import/prometheus?timestamp=1717070399999", text.String()},
		{"/api/v1/import/prometheus?timestamp=1717070399999&extra_label=job=y&extra_label=dc=a=b&extra_label=none=", text.String()},
		{"/api/v1/import?extra_label=host=z", `{"metric":{"__name__":"m","host":"a"},"values":[1,2],"timestamps":[1717070400000,1717070401000]}`},
	} {
		target := test.path
		ours, theirs := fmt.Sprint("ours", n), fmt.Sprint("theirs", n)
		post(t, base+target, http.Header{}, []byte(test.body))
		post(t, base+"/internal/force_flush", http.Header{}, nil)
		all := url.QueryEscape(`{__name__!=""}`)
		got := get(t, base+"/api/v1/export?max_rows_per_line=100&match[]="+all)
		post(t, base+"/api/v1/admin/tsdb/delete_series?match[]="+all, http.Header{}, nil)
		post(t, "http://"+c.http+"/api/v1/import", http.Header{"X-Scope-Orgid": {theirs}}, got)
		post(t, "http://"+c.http+target, http.Header{"X-Scope-Orgid": {ours}}, []byte(test.body))
		want := c.contents(theirs)
		if len(want) == 0 {
			t.Fatalf("%s: VictoriaMetrics has nothing: %s", target, got)
		}
		c.same(ours, want)
	}

	// What one exports the other imports.
	const fields, places = "__timestamp__:unix_ms,host,job,__value__", "1:time:unix_ms,2:label:host,3:label:job,4:metric:temp"
	post(t, base+"/api/v1/import/csv?format="+columns, http.Header{}, []byte(table.String()))
	post(t, base+"/internal/force_flush", http.Header{}, nil)
	theirs := get(t, base+"/api/v1/export/csv?match[]=temp&format="+fields)
	theirs = bytes.ReplaceAll(theirs, []byte(`\"`), []byte(`""`)) // which it does not read itself
	post(t, base+"/api/v1/admin/tsdb/delete_series?match[]=temp", http.Header{}, nil)
	post(t, "http://"+c.http+"/api/v1/import/csv?format="+places, http.Header{"X-Scope-Orgid": {"csv"}}, theirs)
	ours := get(t, "http://"+c.http+"/db/csv/api/v1/export/csv?match[]=temp&format="+fields)
	if lines := bytes.Count(ours, []byte{'\n'}); lines != 4001 {
		t.Fatalf("%d lines", lines)
	}
	post(t, base+"/api/v1/import/csv?format="+places, http.Header{}, ours)
	post(t, base+"/internal/force_flush", http.Header{}, nil)
	post(t, "http://"+c.http+"/api/v1/import", http.Header{"X-Scope-Orgid": {"back"}}, get(t, base+"/api/v1/export?match[]=temp"))
	c.same("csv", c.contents("back"))
}

func TestVictoriaMetrics(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs VictoriaMetrics")
	}
	c := newCluster(t)
	base := startVictoriaMetrics(t)
	fromMs := time.Date(2024, 5, 30, 12, 0, 0, 0, time.UTC).UnixMilli()
	// It keeps samples as decimals of a common scale: not values as far apart as Prometheus does, nor the sign of 0.
	request, want := write(fromMs, 600_000, 500, 0.1, -0.5, 123456789.125, 0, math.Inf(1), math.Inf(-1), 1e9, -20.15)
	remoteWrite(t, base, &request)
	post(t, base+"/internal/force_flush", http.Header{}, nil)
	from := []string{"--from", "victoriametrics", base}
	c.migrated("whole", want, from...)
	c.migrated("steps", want, append(from, "--step", "7h", "--end", "2025-01-01")...)
	c.differs("whole", fromMs, append(from, "--start", fmt.Sprint(fromMs), "--end", fmt.Sprint(fromMs+1e8))...)
	// Its export goes into our import as it is, and ours is read as if it were its own.
	text := get(t, base+"/api/v1/export?match[]="+url.QueryEscape(`{__name__!=""}`)+"&max_rows_per_line=100")
	post(t, "http://"+c.http+"/api/v1/import?db=piped", http.Header{}, text)
	c.same("piped", want)
	c.migrated("ours", want, "--from", "victoriametrics", "http://"+c.http, "--source-tenant", "piped")
	c.killed(want, base, "/api/v1/export", append(from, "--start", fmt.Sprint(fromMs), "--end", fmt.Sprint(fromMs+400_000_000)))
}

// killed kills an import when it asks for the thirteenth step, and sees that the next one goes on with about that step.
func (c *cluster) killed(want contents, base, path string, args []string) {
	c.Helper()
	target, err := url.Parse(base)
	if err != nil {
		c.Fatal(err)
	}
	var asked atomic.Int64
	const killAt = 13
	reached, released := make(chan struct{}), make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path && r.URL.Query().Get("max_rows_per_line") != "1" { // which is a question for the beginning
			if asked.Add(1) == killAt {
				close(reached)
				<-released
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	checkpoint := filepath.Join(c.TempDir(), "checkpoint")
	for i := range args {
		if args[i] == base {
			args[i] = server.URL
		}
	}
	args = append(slices.Clone(args), "--db", "killed", "--checkpoint", checkpoint)
	first := c.command(args...)
	if err := first.Start(); err != nil {
		c.Fatal(err)
	}
	select {
	case <-reached:
	case <-time.After(waitMax):
		c.Fatal("the import does not ask")
	}
	if err := first.Process.Kill(); err != nil {
		c.Fatal(err)
	}
	_ = first.Wait()
	close(released)
	if _, err := os.Stat(checkpoint); err != nil {
		c.Fatal(err)
	}
	if code, told := c.run(append(slices.Clone(args), "--step", "1h1m")...); code != 1 || !strings.Contains(told, "of another import") {
		c.Errorf("another import with the checkpoint: %d %s", code, told)
	}
	code, told := c.run(args...)
	if code != 0 || !strings.Contains(told, "with those before the import went on") {
		c.Fatalf("%d %s", code, told)
	}
	c.same("killed", want)
}

func TestInfluxDB(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs InfluxDB")
	}
	c := newCluster(t)
	free, err := harness.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, influxConfig, dir, free[0], free[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://" + free[1]
	start(t, "influxd", "influxdb", base+"/ping", "-config", config)
	post(t, base+"/query?q="+url.QueryEscape("CREATE DATABASE d"), http.Header{}, nil)
	fromMs := time.Date(2023, 2, 27, 1, 0, 0, 0, time.UTC).UnixMilli()
	want := contents{}
	var lines bytes.Buffer
	texts := 0
	for i := range 30_000 {
		host := fmt.Sprintf("h %d", i%3)
		tags := []client.Tag{{Name: "host", Value: host}}
		ms := fromMs + int64(i)*10_000
		fmt.Fprintf(&lines, `metric_1,host=h\ %d idle=%v,n=%di,up=%t,value=%v,text="a b" %d`+"\n", i%3, float64(i)/7, i, i%2 == 0, -float64(i)/10, ms*1e6+int64(i%1000))
		texts++
		up := 0.0
		if i%2 == 0 {
			up = 1
		}
		for field, v := range map[string]float64{"idle": float64(i) / 7, "n": float64(i), "up": up} {
			want.add(client.MustSeries("metric_1", append(slices.Clone(tags), client.Tag{Name: "_field", Value: field})...), ms, v)
		}
		want.add(client.MustSeries("metric_1", tags...), ms, -float64(i)/10)
		if i%100 == 0 {
			fmt.Fprintf(&lines, "metric\\ \"2\" x=%d %d\n", i, ms*1e6)
			want.add(client.MustSeries(`metric "2"`, client.Tag{Name: "_field", Value: "x"}), ms, float64(i))
		}
	}
	// Two samples of one millisecond, of which the later one counts.
	fmt.Fprintf(&lines, "metric_0 value=1 %d\nmetric_0 value=2 %d\n", fromMs*1e6+1, fromMs*1e6+999_999)
	want.add(client.MustSeries("metric_0"), fromMs, 2)
	post(t, base+"/write?db=d", http.Header{}, lines.Bytes())
	from := []string{"--from", "influxdb", base, "--source-db", "d"}
	c.migrated("whole", want, from...)
	c.migrated("steps", want, append(from, "--step", "11h", "--end", "2023-04-01")...)
	code, told := c.run(append(from, "--db", "told", "--checkpoint", filepath.Join(t.TempDir(), "c"))...)
	if code != 0 || !strings.Contains(told, fmt.Sprintf("left out: %d values that are text\nleft out: 1 samples that share", texts)) {
		t.Errorf("%d %s", code, told)
	}
	c.differs("whole", fromMs, from...)
	c.killed(want, base, "/query", append(from, "--start", fmt.Sprint(fromMs), "--end", fmt.Sprint(fromMs+300_000_000), "--step", "11h"))
	post(t, base+"/query?q="+url.QueryEscape("CREATE RETENTION POLICY other ON d DURATION INF REPLICATION 1"), http.Header{}, nil)
	if code, told := c.run(append(from, "--db", "policies", "--checkpoint", filepath.Join(t.TempDir(), "c"))...); code != 1 || !strings.Contains(told, "autogen, other") {
		t.Errorf("%d %s", code, told)
	}
	c.migrated("policy", want, append(from, "--source-retention-policy", "autogen")...)
}

const influxConfig = `reporting-disabled = true
bind-address = "%[2]s"
[meta]
  dir = "%[1]s/meta"
[data]
  dir = "%[1]s/data"
  wal-dir = "%[1]s/wal"
  query-log-enabled = false
[http]
  bind-address = "%[3]s"
  log-enabled = false
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
`

// TestOpenTSDB reads a TickMesh as an OpenTSDB, which it speaks, too.
func TestOpenTSDB(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server")
	}
	c := newCluster(t)
	source := harnesstest.Standalone(t)
	fromMs := time.Date(2024, 5, 30, 12, 0, 0, 0, time.UTC).UnixMilli()
	want := contents{}
	var lines bytes.Buffer
	for i := range 3000 {
		s := client.MustSeries(fmt.Sprintf("metric_%d", i%3), client.Tag{Name: "host", Value: fmt.Sprint(i % 7)})
		fmt.Fprintf(&lines, "put %s %d %v host=%d\n", s.Metric(), fromMs+int64(i)*60_000+7, float64(i)/8, i%7)
		want.add(s, fromMs+int64(i)*60_000+7, float64(i)/8)
	}
	post(t, "http://"+source.HTTPAddr+"/api/put", http.Header{}, lines.Bytes())
	for _, kind := range []string{"opentsdb", "ticktock"} {
		from := []string{"--from", kind, source.HTTPAddr}
		if code, told := c.run(append(from, "--checkpoint", filepath.Join(t.TempDir(), "c"))...); code != 1 || !strings.Contains(told, "--start") {
			t.Errorf("%d %s", code, told)
		}
		from = append(from, "--start", fmt.Sprint(fromMs), "--end", fmt.Sprint(fromMs+200_000_000))
		c.migrated(kind, want, from...)
		c.migrated(kind+"-steps", want, append(from, "--step", "7h")...)
	}
	c.differs("opentsdb", fromMs, "--from", "opentsdb", source.HTTPAddr, "--start", fmt.Sprint(fromMs), "--end", fmt.Sprint(fromMs+1000))
}
