package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// smallMemory is what a server has for requests in these tests, far less than their bodies.
func smallMemory(o *Options) {
	const bytes = 12 << 20 // of a process of 64 MiB
	o.Limits.WholeBytesMax, o.Limits.WholeDecodedBytesMax = 1<<20, 1<<20
	o.Budgets = Budgets{Writes: budget.New(bytes, testTimeout), Reads: budget.New(1<<20, testTimeout)}
}

// manyLines returns a body of about so many bytes, each line with a time of its own.
func manyLines(bytes int, line func(i int) string) (body string, lines int) {
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString(line(lines))
		lines++
	}
	return b.String(), lines
}

// postLong posts a body as net/http does, which hears an answer before it has sent all.
func (r *running) postLong(t *testing.T, target, body string, chunked bool, headers ...string) (status int, text string) {
	t.Helper()
	q, err := http.NewRequest(http.MethodPost, "http://"+r.Addresses().HTTP.String()+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if chunked {
		q.ContentLength = -1
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// A body of lines that is much larger than the memory for requests is taken, however it is sent.
func TestBodiesLargerThanMemory(t *testing.T) {
	influx := func(i int) string {
		return fmt.Sprintf("m%d,host=abcdefghijklmnopqrstuvwxyz value=1 %d\n", i%7, 1_700_000_000+i)
	}
	put := func(i int) string {
		return fmt.Sprintf("put m%d %d 1 host=abcdefghijklmnopqrstuvwxyz\n", i%7, 1_700_000_000+i)
	}
	exposition := func(i int) string {
		return fmt.Sprintf("m%d{host=\"abcdefghijklmnopqrstuvwxyz\"} 1 %d\n", i%7, 1_700_000_000+i)
	}
	values := func(i int) string { return fmt.Sprintf("%d,1,\"abcdefghijklmnopqrstuvwxyz\"\n", 1_700_000_000+i) }
	short := func(i int) string { return "m v=1\n" }
	for _, c := range []struct {
		name, target string
		line         func(int) string
		gzip         bool
		bytes        int
	}{
		{"line protocol", "/write?precision=s", influx, false, 13 << 20},
		{"InfluxDB 2", "/api/v2/write?bucket=default&precision=s", influx, false, 2 << 20},
		{"compressed", "/write?precision=s", influx, true, 13 << 20},
		{"put lines", "/api/put?sync", put, false, 13 << 20},
		{"CSV", "/api/v1/import/csv?format=1:time:unix_s,2:metric:m,3:label:host", values, true, 13 << 20},
		{"Prometheus' text", "/api/v1/import/prometheus", exposition, true, 13 << 20},
		{"shortest lines", "/write", short, false, 2 << 20}, // of which a chunk takes much more than its text
	} {
		r := start(t, smallMemory)
		body, lines := manyLines(c.bytes, c.line)
		headers := []string{}
		if c.gzip {
			body, headers = gzipped(body), []string{"Content-Encoding", "gzip"}
		}
		if status, text := r.postLong(t, c.target, body, false, headers...); status != 204 {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
		if r.total() != lines {
			t.Errorf("%s: %d points of %d are stored", c.name, r.total(), lines)
		}
		if refused := r.budgets.Writes.Stats().Refused; refused != 0 {
			t.Errorf("%s: %d refusals of memory", c.name, refused)
		}
	}
}

// Errors of an import name the line of the body, whatever chunk that is in.
func TestChunksCountLines(t *testing.T) {
	for _, c := range []struct{ target, line, place string }{
		{"/api/v1/import/prometheus", "m 1 1700000000000\n", "line"},
		{"/api/v1/import", `{"metric":{"__name__":"m"},"values":[1],"timestamps":[1700000000000]}` + "\n", "series"},
	} {
		r := start(t, func(o *Options) { o.Limits.Line.LineBytesMax = 10_000 })
		lines := 3 * bodyChunkBytes / len(c.line)
		body := strings.Repeat(c.line, lines) + strings.Repeat("x", 2*bodyChunkBytes) + "\n" + c.line + "bad\n"
		response, text := r.post(t, request(c.target, body))
		if response.StatusCode != 400 || !strings.HasPrefix(text, fmt.Sprintf("%s %d: ", c.place, lines+1)) || !strings.Contains(text, fmt.Sprintf("\n%s %d: ", c.place, lines+3)) {
			t.Errorf("%s: %d %.300s", c.target, response.StatusCode, text)
		}
	}
}

// jsonLine returns a line of an import with so many bytes, of samples from a time on.
func jsonLine(metric string, firstMs int64, bytes int) (line string, samples int) {
	const each = len("-1.234567890123456e-300,") + len("1700000000000,")
	frame := len(`{"metric":{"__name__":"m"},"values":[],"timestamps":[]}`) - 2
	samples = (bytes - frame) / each
	values, times := make([]string, samples), make([]string, samples)
	for i := range samples {
		values[i], times[i] = "-1.234567890123456e-300", fmt.Sprint(firstMs+int64(i))
	}
	line = `{"metric":{"__name__":"` + metric + `"},"values":[` + strings.Join(values, ",") + `],"timestamps":[` + strings.Join(times, ",") + `]}`
	return line + strings.Repeat(" ", bytes-len(line)-1) + "\n", samples
}

// An import takes lines as long as an export writes them, whatever --line-bytes-max is, in little memory; one that is longer is refused alone.
func TestImportOfLongLines(t *testing.T) {
	var body strings.Builder
	points, ms := 0, int64(1_700_000_000_000)
	add := func(bytes int) {
		line, samples := jsonLine("m", ms, bytes)
		body.WriteString(line)
		ms += int64(samples)
		if bytes <= parse.JSONLineBytesMax {
			points += samples
		}
	}
	for _, bytes := range []int{100, 300_000, 65_537, 1_000_000, 1_000_000, 70_000, parse.JSONLineBytesMax, 200} {
		add(bytes)
	}
	lines := 8
	good, goodPoints := body.String(), points
	add(parse.JSONLineBytesMax + bodyChunkBytes + 2)
	add(300)
	for _, c := range []struct {
		name, body string
		gzip       bool
		bad        int // the line that is refused; 0: none
	}{
		{"one long", strings.SplitAfterN(good, "\n", 3)[1], false, 0},
		{"many", good, false, 0},
		{"many, compressed", good, true, 0},
		{"one too long", body.String(), false, lines + 1},
		{"one too long, compressed", body.String(), true, lines + 1},
	} {
		r := start(t, func(o *Options) { smallMemory(o); o.Limits.Line.LineBytesMax = 64 << 10 })
		headers := []string{}
		if c.gzip {
			c.body, headers = gzipped(c.body), []string{"Content-Encoding", "gzip"}
		}
		status, text := r.postLong(t, "/api/v1/import", c.body, false, headers...)
		want, answer := goodPoints, ""
		switch {
		case c.name == "one long":
			_, want = jsonLine("m", 0, 300_000)
		case c.bad > 0:
			want, answer = points, fmt.Sprintf("series %d: line is longer than 1048576 bytes; an export with max_rows_per_line has shorter ones\n", c.bad)
		}
		if status != 204 && (c.bad == 0 || status != 400) || text != answer {
			t.Errorf("%s: %d %.300s", c.name, status, text)
		}
		if r.total() != want {
			t.Errorf("%s: %d points of %d are stored", c.name, r.total(), want)
		}
		if refused := r.budgets.Writes.Stats().Refused; refused != 0 {
			t.Errorf("%s: %d refusals of memory", c.name, refused)
		}
	}
}

// Lines that are bad, too long or cut by the end of a chunk are told of as in a body that is read at once.
func TestChunksTellOfAllLines(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.Line.LineBytesMax = 10_000; o.Limits.Line.ErrorsMax = 10 })
	good := strings.Repeat("m value=1 1700000000\n", 60_000) // more than two chunks
	body := "bad\n" + good + "m,t=" + strings.Repeat("x", 2*bodyChunkBytes) + " value=1\n" + "worse\n" + good + "last value=7 1700000001"
	response, text := r.post(t, request("/write?precision=s", body))
	if response.StatusCode != 400 || !strings.HasPrefix(text, `{"error":"partial write: unable to parse 'bad'`) || strings.Count(text, "unable to parse") != 3 ||
		!strings.Contains(text, "unable to parse 'worse'") || !strings.Contains(text, "dropped=3") {
		t.Errorf("%d %.600s", response.StatusCode, text)
	}
	if got := r.value("last{}", 1_700_000_001_000); got != 7 {
		t.Errorf("the last line is %v", got)
	}
	if got, want := r.total(), 2*60_000+1; got != want {
		t.Errorf("%d points, want %d", got, want)
	}
	if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=http_influx1", "outcome=refused"); got != 3 {
		t.Errorf("%v points refused, want 3", got)
	}
}

// A body that has to be in memory at once is refused by name, and one that goes on beyond --body-bytes-max.
func TestBodiesThatCannotBeCut(t *testing.T) {
	r := start(t, func(o *Options) { smallMemory(o); o.Limits.BodyBytesMax = 16 << 20 })
	datapoint := `{"metric":"m","timestamp":1700000000,"value":1,"tags":{"a":"b"}}`
	array := "[" + strings.Repeat(datapoint+",", (2<<20)/len(datapoint)) + datapoint + "]"
	lines := strings.Repeat("m value=1 1700000000\n", (2<<20)/21)
	for _, c := range []struct {
		name, target, body, names string
		chunked                   bool
		headers                   []string
	}{
		{"JSON", "/api/put", array, "--memory-limit", false, nil},
		{"JSON, chunked", "/api/put", array, "--memory-limit", true, nil},
		{"JSON, compressed", "/api/put", gzipped(array), "--memory-limit", false, []string{"Content-Encoding", "gzip"}},
		{"remote write", "/api/v1/write", array, "--memory-limit", false, nil},
		{"a key", "/write", lines, "--memory-limit", false, []string{"Idempotency-Key", "k"}},
		{"lines, announced", "/write", strings.Repeat(lines, 9), "--body-bytes-max", false, nil},
		{"lines, chunked", "/write", strings.Repeat(lines, 9), "--body-bytes-max", true, nil},
	} {
		if status, text := r.postLong(t, c.target, c.body, c.chunked, c.headers...); status != 413 || !strings.Contains(text, c.names) {
			t.Errorf("%s: %d %.300s", c.name, status, text)
		}
	}
	if small := array[:len(datapoint)+1] + "]"; true {
		if response, text := r.post(t, request("/api/put", small)); response.StatusCode != 204 {
			t.Errorf("%d %s", response.StatusCode, text)
		}
	}
}

// A client that hangs in the middle of a long body holds neither a worker nor much memory, and what it
// has not ended is not acknowledged.
func TestSlowClientOfALongBody(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.WritesMax = 1; o.Limits.HTTPReadTimeout = 2 * time.Second })
	slow := dial(t, r.Addresses().HTTP)
	lines := strings.Repeat("m value=1 1700000000\n", 2*bodyChunkBytes/21)
	send(t, slow, fmt.Sprintf("POST /write?db=d&precision=s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*len(lines), lines))
	eventually(t, "a chunk is written", func() bool { return r.total() > 0 })
	eventually(t, "no worker", func() bool { return len(r.workers.slots) == 0 })
	if response, text := r.post(t, request("/write?db=d&precision=s", "n value=1 1700000000")); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if used := r.budgets.Writes.Stats().Used; used > 3*bodyChunkBytes {
		t.Errorf("%d bytes are held", used)
	}
	if response, text := readAnswer(t, bufio.NewReader(slow)); response.StatusCode != 503 {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if got := r.metric(t, "tickmesh_ingest_write_errors_total", "kind=slow_body"); got != 1 {
		t.Errorf("%v counted", got)
	}
}

// A client that is slowed and hangs up is waited for no longer, however far its database is ahead of its rate.
func TestHungUpWhileSlowed(t *testing.T) {
	r := start(t, func(o *Options) { o.Meter, o.Limits.HTTPReadTimeout = slowMeter(t), testTimeout })
	c := dial(t, r.Addresses().HTTP)
	lines := strings.Repeat("m value=1 1700000000\n", bodyChunkBytes/20) // an hour's points and more
	send(t, c, fmt.Sprintf("POST /write?db=slow&precision=s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*len(lines), lines))
	account := r.options.Meter.Open("slow")
	eventually(t, "the client is slowed", func() bool { return account.Ahead() > 0 && len(r.workers.slots) == 0 })
	if used := r.budgets.Writes.Stats().Used; used < bodyChunkBytes {
		t.Errorf("it holds %d bytes while it is slowed", used)
	}
	_ = c.Close()
	eventually(t, "the body is given up", func() bool { return r.budgets.Writes.Stats().Used == 0 })
}

// Every refusal has a kind, and none that no other try can cure is 503.
func TestKindsOfErrors(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct {
		err    error
		kind   refusal.Kind
		status int
	}{
		{fmt.Errorf("%w: of 7 points", series.ErrBatch), refusal.Malformed, 400},
		{refusal.ErrMemory, refusal.NoMemory, 503},
		{refusal.ErrWorkers, refusal.NoWorker, 503},
		{series.ErrOverloaded, refusal.Overloaded, 503},
		{errors.New("no kind"), refusal.Unavailable, 503},
		{fmt.Errorf("%w: %w", series.ErrUnavailable, context.DeadlineExceeded), refusal.TimedOut, 503},
	} {
		r.beforeWrites(func(context.Context) error { return c.err })
		before := r.metric(t, "tickmesh_ingest_write_errors_total", "kind="+c.kind.String())
		response, text := r.post(t, request("/write", "m value=1"))
		after := r.metric(t, "tickmesh_ingest_write_errors_total", "kind="+c.kind.String())
		if response.StatusCode != c.status || after != before+1 {
			t.Errorf("%v: %d %s, counted %v", c.err, response.StatusCode, text, after-before)
		}
	}
	r.beforeWrites(nil)
	r.refuseNew(func(series.Key) error { return fmt.Errorf("%w: there are 3", series.ErrSeriesLimit) })
	if response, _ := r.post(t, request("/write", "n value=1")); response.StatusCode != 400 {
		t.Errorf("a refused series: %d", response.StatusCode)
	}
	if got := r.metric(t, "tickmesh_ingest_write_errors_total", "kind=series_limit"); got != 1 {
		t.Errorf("%v writes with refused series are counted", got)
	}
}

// Heavy writes that wait for a processor leave workers to light ones.
func TestHeavyWritesLeaveWorkers(t *testing.T) {
	pool := processor.New(1)
	r := start(t, func(o *Options) { o.Limits.WritesMax = 4; o.Processors = pool; o.Limits.WriteTimeout = testTimeout })
	ctx, work := pool.Begin(t.Context(), "another")
	processor.Of(ctx).Heavy() // and keeps the slot
	pool.Small()
	body := gzipped(strings.Repeat("m value=3 1700000000\n", 3*expandedBytesLight/2/21))
	var heavy []net.Conn
	for range 8 {
		c := dial(t, r.Addresses().HTTP)
		send(t, c, request("/write?db=d&precision=s", body, "Content-Encoding: gzip"))
		heavy = append(heavy, c)
	}
	if response, text := r.post(t, request("/write?db=d&precision=s", "n value=1 1700000000")); response.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if n := len(r.workers.slots); n > 2 {
		t.Errorf("heavy writes hold %d workers of 4", n)
	}
	work.EndAll()
	for _, c := range heavy {
		if response, text := readAnswer(t, bufio.NewReader(c)); response.StatusCode != http.StatusNoContent {
			t.Errorf("a heavy one: %d %s", response.StatusCode, text)
		}
	}
}

// Between two chunks a body has no slot of processors, also when nothing of a chunk was written:
// its client may be slowed for long.
func TestNoSlotBetweenChunks(t *testing.T) {
	b := &body{processors: processor.New(1), base: t.Context(), lease: budget.New(1, time.Second).Lease(budget.Owner{})}
	b.expands(expandedBytesLight + 1)
	b.releaseChunk()
	if b.work.Idle() {
		t.Error("it had one")
	}
}
