package ingest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/series"
)

func TestBodyLimits(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.BodyBytesMax = 2000; o.Limits.BodyBytesDecodedMax = 5000 })
	line := "m value=1 1700000000000000000\n"
	bomb := gzipped(strings.Repeat(line, 10_000))
	if len(bomb) > 2000 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for _, c := range []struct{ name, raw string }{
		{"announced", request("/write?db=d", strings.Repeat("x", 2001))},
		{"chunked", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1f4\r\n"+strings.Repeat("x", 500)+"\r\n", 5) + "0\r\n\r\n"},
		{"gzip bomb", request("/write?db=d", bomb, "Content-Encoding: gzip")},
	} {
		response, body := r.post(t, c.raw)
		if response.StatusCode != 413 || !strings.Contains(body, "too large") {
			t.Errorf("%s: %d %s", c.name, response.StatusCode, body)
		}
	}
	equalLines(t, "stored", r.stored(), nil)
	if got := r.budgets.Writes.Stats().Used; got != 0 {
		t.Errorf("%d bytes still in flight", got)
	}
}

// A client that sends a large body without looking still reads its 413.
func TestTooLargeIsHeard(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.BodyBytesMax = 2000 })
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testTimeout}
	response, err := client.Post("http://"+r.Addresses().HTTP.String()+"/write?db=d", "text/plain", strings.NewReader(strings.Repeat("m value=1\n", 300_000)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); response.StatusCode != 413 || err != nil {
		t.Errorf("%d %s, %v", response.StatusCode, body, err)
	}
}

// Writes beyond the bound wait for a worker, and are told to come back when none
// is free in time; a client that sends its body slowly holds none.
func TestWritesMax(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, func(o *Options) { o.Limits.WritesMax = 1; o.Limits.WriteTimeout = testTimeout })
	r.workers.waitMax = 100 * time.Millisecond // but a write that has a worker has all the time
	slow := dial(t, r.Addresses().HTTP)
	send(t, slow, "POST /write?db=d&precision=s HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\nm value=")
	if response, body := r.post(t, request("/write?db=d&precision=s", "m value=1 1700000000")); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	r.beforeWrites(func(context.Context) error { <-gate; return nil }) // a Writer that is deaf to its context
	held := dial(t, r.Addresses().HTTP)
	send(t, held, request("/write?db=d&precision=s", "m value=2 1700000000"))
	eventually(t, "a write at work", func() bool { return len(r.workers.slots) == 1 })
	response, body := r.post(t, request("/write?db=d&precision=s", "m value=3 1700000000"))
	if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" || !strings.Contains(body, "overloaded") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	put := dial(t, r.Addresses().Put) // TCP waits as long as it takes
	send(t, put, "put m 1700000001 1 a=b\nversion\n")
	close(gate)
	if response, _ := readAnswer(t, bufio.NewReader(held)); response.StatusCode != 204 {
		t.Errorf("the first: %d", response.StatusCode)
	}
	answer := make([]byte, len(versionAnswer))
	if _, err := io.ReadFull(put, answer); err != nil || string(answer) != versionAnswer {
		t.Errorf("put: %q, %v", answer, err)
	}
	send(t, slow, "4 1700000000\n\n\n\n\n\n\n\n\n\n")
	if response, body := readAnswer(t, bufio.NewReader(slow)); response.StatusCode != 204 {
		t.Errorf("the slow one: %d %s", response.StatusCode, body)
	}
	equalLines(t, "stored", r.stored(), []string{"d/m{} 1700000000000 4", "m{a=b} 1700000001000 1"})
}

// Memory grows with what has arrived, not with what was announced.
func TestAnnouncedBodiesCostNothing(t *testing.T) {
	r := start(t, nil)
	for range 20 {
		c := dial(t, r.Addresses().HTTP)
		send(t, c, "POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\nm value=1")
	}
	eventually(t, "all requests being read", func() bool { return r.metric(t, "tickmesh_ingest_connections", "port=http") == 20 })
	if got := r.budgets.Writes.Stats().Used; got > 20*8*bodyBytesFirst {
		t.Errorf("%d bytes in flight for 20 announced bodies", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.stopped = true
	_ = r.Shutdown(ctx) // they never end by themselves
}

// When all bytes in flight are taken a request waits, and is then told to come
// back.
func TestInFlightLimit(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, func(o *Options) {
		o.Limits.BodyBytesMax, o.Limits.BodyBytesDecodedMax, o.Limits.InFlightBytesMax = 30_000, 30_000, 60_064
		o.Limits.OtherBodyBytesMax, o.Limits.Line.LineBytesMax, o.TCP.ChunkBytes = 1000, 1000, 1000
		o.Limits.WriteTimeout = testTimeout // but what has no room is told so soon
		o.Budgets = Budgets{Writes: budget.New(260_000, 100*time.Millisecond), Reads: budget.New(1<<20, time.Second)}
	})
	r.beforeWrites(gated(gate))
	line := "m value=1 1700000000000000000\n"
	large := request("/write?db=d", strings.Repeat(line, 30_000/len(line)))
	var held []*net.TCPConn
	for range 2 {
		c := dial(t, r.Addresses().HTTP)
		send(t, c, large)
		held = append(held, c)
	}
	// Each has its body, and lines and points three times as large.
	eventually(t, "two bodies parsed", func() bool { return r.budgets.Writes.Stats().Used >= 190_000 })
	response, body := r.post(t, large)
	if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	close(gate)
	for _, c := range held {
		if response, body := readAnswer(t, bufio.NewReader(c)); response.StatusCode != 204 {
			t.Errorf("the first: %d %s", response.StatusCode, body)
		}
	}
	eventually(t, "nothing in flight", func() bool { return r.budgets.Writes.Stats().Used == 0 })
}

func TestWriteTimeout(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.WriteTimeout = 20 * time.Millisecond })
	r.beforeWrites(gated(nil))
	for range 3 { // the worker's deadline is made anew each time
		response, body := r.post(t, request("/write?db=d", "m value=1"))
		if response.StatusCode != 503 || !strings.Contains(body, "too long") {
			t.Errorf("%d %s", response.StatusCode, body)
		}
	}
	r.beforeWrites(nil)
	eventually(t, "a write in time", func() bool { // a busy machine may need more for one
		response, body := r.post(t, request("/write?db=d", "m value=1"))
		if response.StatusCode != 204 && (response.StatusCode != 503 || !strings.Contains(body, "too long")) {
			t.Fatalf("after the timeouts: %d %s", response.StatusCode, body)
		}
		return response.StatusCode == 204
	})
}

func TestPutSyncTimeout(t *testing.T) {
	r := start(t, nil)
	r.beforeWrites(gated(nil))
	for target, want := range map[string]string{
		"/api/put?sync&sync_timeout=20":         `{"error":{"code":503,"message":"The put call has timedout with 0 successful writes, 0 failed writes and 1 timed out writes."`,
		"/api/put?sync&sync_timeout=20&summary": `{"success":0,"timeouts":1,"failed":0}`,
	} {
		response, body := r.post(t, request(target, onePoint))
		if response.StatusCode != 503 || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %d %s", target, response.StatusCode, body)
		}
	}
}

func TestHTTPGarbage(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.HTTPHeaderBytesMax = 2000 })
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"no HTTP":       {"hello\r\n\r\n", 400},
		"bytes":         {"\x00\x01\x02\r\n\r\n", 400},
		"large headers": {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 3000) + "\r\n\r\n", 431},
		"bad chunk":     {"POST /write HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
	} {
		response, body := r.post(t, c.raw)
		if response.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, response.StatusCode, body, c.status)
		}
	}
}

// A body that comes too slowly is no reason to throw it away.
func TestSlowBody(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.HTTPReadTimeout = 500 * time.Millisecond })
	for _, announced := range []int{100, 100_000} { // read ahead by fasthttp, and by this package
		raw := fmt.Sprintf("POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", announced, strings.Repeat("m value=1\n", announced/20))
		response, body := r.post(t, raw)
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
			t.Errorf("%d bytes announced: %d %s", announced, response.StatusCode, body)
		}
	}
	equalLines(t, "stored", r.stored(), nil)
}

// Bytes of a body that nobody reads are never taken for a request.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	r := start(t, func(o *Options) { o.Other = http.NotFoundHandler() })
	inner := request("/write?db=d", "m value=1")
	for _, line := range []string{
		"GET /ping", "POST /ping", "GET /health", "GET /query?q=SHOW%20DATABASES", "DELETE /query", "GET /write", "GET /api/put", "GET /nowhere", "POST /nowhere",
	} {
		for name, raw := range map[string]string{
			"length":  fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", line, len(inner), inner),
			"chunked": fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", line, len(inner), inner),
		} {
			answers := exchange(t, r.Addresses().HTTP, raw)
			if n := strings.Count(answers, "HTTP/1.1 "); n != 1 {
				t.Errorf("%s, %s: %d answers", line, name, n)
			}
		}
	}
	equalLines(t, "stored", r.stored(), nil)
}

func TestPipelinedWrites(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().HTTP)
	const n = 50
	var raw strings.Builder
	for i := range n {
		raw.WriteString(request("/write?db=d&precision=s", fmt.Sprintf("m value=%d %d", i, 1_700_000_000+i)))
	}
	send(t, c, raw.String())
	from := bufio.NewReader(c)
	for i := range n {
		if response, body := readAnswer(t, from); response.StatusCode != 204 {
			t.Fatalf("answer %d: %d %s", i, response.StatusCode, body)
		}
	}
	if got := r.total(); got != n {
		t.Errorf("%d points stored, want %d", got, n)
	}
}

func TestExpectContinue(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	body := "m value=1 1700000000000000000"
	send(t, c, fmt.Sprintf("POST /write?db=d HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body)))
	line, err := from.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = from.ReadString('\n')
	send(t, c, body)
	if response, text := readAnswer(t, from); response.StatusCode != 204 {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
}

// A client that closes its sending side after the request still gets its answer.
func TestHalfClosed(t *testing.T) {
	r := start(t, nil)
	answer := exchange(t, r.Addresses().HTTP, request("/write?db=d&precision=s", "m value=1 1700000000"))
	if !strings.HasPrefix(answer, "HTTP/1.1 204 No Content\r\n") {
		t.Errorf("%q", answer)
	}
	equalLines(t, "stored", r.stored(), []string{"d/m{} 1700000000000 1"})
}

func TestHTTP10KeepAlive(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	for range 2 {
		send(t, c, "GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		if response, _ := readAnswer(t, from); response.StatusCode != 204 {
			t.Fatal(response.StatusCode)
		}
	}
	send(t, c, "GET /ping HTTP/1.0\r\n\r\n")
	if response, _ := readAnswer(t, from); response.StatusCode != 204 {
		t.Fatal(response.StatusCode)
	}
	if _, err := from.ReadByte(); err != io.EOF {
		t.Errorf("the connection stays open: %v", err)
	}
}

// The same request again changes nothing: the retry of a client that did not see
// the answer.
func TestRetryIsHarmless(t *testing.T) {
	r := start(t, nil)
	for range 3 {
		if response, _ := r.post(t, request("/api/put", onePoint)); response.StatusCode != 204 {
			t.Fatal(response.StatusCode)
		}
	}
	equalLines(t, "stored", r.stored(), []string{"sys.cpu{host=a} 1700000000000 1.5"})
}

// Invariant: the outcomes add up to the points read, whatever happens.
func TestOutcomesAddUp(t *testing.T) {
	r := start(t, nil)
	r.refuseNew(refusing("new"))
	body := "m a=1,b=2,c=\"text\" 1700000000000000000\nbad\nnew a=1,b=2 1700000000000000000\nm,t=1,t=2 a=1 1700000000000000000\n"
	r.post(t, request("/write?db=d", body))
	r.beforeWrites(failing(series.ErrOverloaded, ""))
	r.post(t, request("/write?db=d", body))
	for outcome, want := range map[string]float64{"accepted": 2, "refused": (1 + 2 + 1) + (1 + 1), "skipped": 2, "failed": 4} {
		if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=http_influx1", "outcome="+outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
}

// Errors beyond the bound are counted, not listed.
func TestManyErrors(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.Line.ErrorsMax = 10 })
	response, body := r.post(t, request("/write?db=d", strings.Repeat("bad\n", 1000)))
	if response.StatusCode != 400 || strings.Count(body, "unable to parse") != 10 || !strings.Contains(body, "990 more lines") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// The clock of a server with net/http's own client: keep-alive, gzip, reuse.
func TestOrdinaryClient(t *testing.T) {
	r := start(t, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testTimeout}
	for i := range 10 {
		body := bytes.NewReader([]byte(gzipped(fmt.Sprintf("m value=%d %d", i, 1_700_000_000+i))))
		q, err := http.NewRequest(http.MethodPost, "http://"+r.Addresses().HTTP.String()+"/write?db=d&precision=s", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Encoding", "gzip")
		q.Header.Set("User-Agent", "telegraf")
		response, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			t.Fatal(response.Status)
		}
	}
	if got := r.total(); got != 10 {
		t.Errorf("%d points stored, want 10", got)
	}
	if got := r.metric(t, "tickmesh_ingest_connections_total", "port=http", "outcome=accepted"); got != 1 {
		t.Errorf("%v connections, want 1", got)
	}
}

// A large write that waits for a worker has no slot: those that have workers may wait for it.
func TestWaitForAWorkerHasNoSlot(t *testing.T) {
	gate, pool := make(chan struct{}), processor.New(1)
	r := start(t, func(o *Options) { o.Limits.WritesMax = 1; o.Processors = pool })
	r.workers.waitMax = time.Hour
	r.beforeWrites(func(context.Context) error { <-gate; return nil })
	first := dial(t, r.Addresses().HTTP)
	send(t, first, request("/write?db=d&precision=s", "m value=2 1700000000"))
	eventually(t, "a write at work", func() bool { return len(r.workers.slots) == 1 })

	body := gzipped(strings.Repeat("m value=3 1700000000\n", 3*expandedBytesLight/2/21))
	second := dial(t, r.Addresses().HTTP)
	send(t, second, request("/write?db=d&precision=s", body, "Content-Encoding: gzip"))
	eventually(t, "a body that is large", func() bool { return r.budgets.Writes.Stats().Used > expandedBytesLight })
	eventually(t, "a free slot", func() bool { return pool.Stats().InUse == 0 })
	close(gate)
	for _, c := range []net.Conn{first, second} {
		if response, text := readAnswer(t, bufio.NewReader(c)); response.StatusCode != 204 {
			t.Errorf("%d %s", response.StatusCode, text)
		}
	}
}
