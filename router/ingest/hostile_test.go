package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
)

// A datagram that ends inside a string takes no lines of other senders along.
func TestUDPKeepsSendersApart(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, func(o *Options) { o.UDPAddress = "127.0.0.1:0"; o.UDP.Format = UDPLine })
	r.beforeWrites(gated(gate)) // so that the others wait, and are read together
	sendDatagrams(t, r.Addresses().UDP, "m,n=0 value=0 1700000000")
	eventually(t, "the first write", func() bool { return len(r.workers.slots) == 1 })
	sendDatagrams(t, r.Addresses().UDP,
		"m,n=1 value=1 1700000000", "m,n=2 text=\"never ends", "m,n=3 value=3 1700000000", "m,n=4 value=4 1700000000\\",
		"m,n=5 value=5 1700000000", "m,n=6 text=\"a\nb\",value=6 1700000000")
	close(gate)
	want := []string{"m{n=0} 1700000000000 0", "m{n=1} 1700000000000 1", "m{n=3} 1700000000000 3", "m{n=5} 1700000000000 5", "m{n=6} 1700000000000 6"}
	eventually(t, "all points stored", func() bool { return r.total() == len(want) })
	equalLines(t, "stored", r.stored(), want)
	eventually(t, "both bad datagrams counted", func() bool {
		return r.metric(t, "tickmesh_ingest_points_total", "protocol=udp", "outcome=refused") == 2
	})
}

// What is read is accounted for where nobody is told of it.
func TestOutcomesOfOtherLines(t *testing.T) {
	r := start(t, func(o *Options) { o.UDPAddress = "127.0.0.1:0" })
	sendDatagrams(t, r.Addresses().UDP, "version\nput m 1700000000 1\nm,a=b value=1")
	eventually(t, "refused datagrams", func() bool {
		return r.metric(t, "tickmesh_ingest_points_total", "protocol=udp", "outcome=refused") == 2
	})
	response, body := r.post(t, request("/api/put?details", "put m 1700000001 1\nversion\nput m x 1\n"))
	want := `{"success":1,"failed":2,"errors":[{"error":"not a put line","datapoint":"version"},` +
		`{"error":"Invalid character 'x' in x","datapoint":"put m x 1"}]}`
	if response.StatusCode != 400 || body != want {
		t.Errorf("%d %s, want %s", response.StatusCode, body, want)
	}
	if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=http_put", "outcome=refused"); got != 2 {
		t.Errorf("%v refused over HTTP, want 2", got)
	}
}

// Errors beyond those kept with their text count with all of their points.
func TestOutcomesBeyondTheListedErrors(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.Line.ErrorsMax = 1; o.Limits.Line.TagsMax = 1 })
	body := block(
		series1([]string{"__name__", "m", "a", "1", "b", "2"}, sample{1, 1}, sample{2, 2}),
		series1([]string{"__name__", "m", "a", "1", "b", "2"}, sample{1, 1}, sample{2, 2}, sample{3, 3}),
		series1([]string{"__name__", "m", "a", "1"}, sample{1, 1}),
	)
	histograms := field(nil, 1, field(field(nil, 4, nil), 4, nil)) // a series that holds two
	body2 := block(histograms, histograms, series1([]string{"a", "1"}, sample{1, 1}, sample{2, 2}, sample{3, 3}))
	r.post(t, request("/api/v1/write", body))
	r.post(t, request("/api/v1/write", body2))
	for outcome, want := range map[string]float64{"accepted": 1, "refused": 5 + 4 + 3} {
		if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=http_remote_write", "outcome="+outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
}

// Errors come in the order of their lines, wherever they were found.
func TestErrorsInOrder(t *testing.T) {
	r := start(t, nil)
	r.refuseNew(refusing("new"))
	_, body := r.post(t, request("/write?db=d", "m,t=1,t=2 a=1\nm a=x\nnew a=1\nm a=1\nm,=1 a=1\nm a=y\n"))
	at := -1
	for _, one := range []string{"m,t=1,t=2 a=1", "m a=x", "series limit", "m,=1 a=1", "m a=y"} {
		next := strings.Index(body, one)
		if next <= at {
			t.Fatalf("%q is not behind the errors of earlier lines: %s", one, body)
		}
		at = next
	}
	if !strings.Contains(body, `"partial write: `) || !strings.Contains(body, "dropped=5") {
		t.Error(body)
	}
}

// A short body that becomes much leaves little memory behind.
func TestWorkersAtRestAreSmall(t *testing.T) {
	r := start(t, nil)
	line := "m,t=" + strings.Repeat("x", 10_000) + " b=1"
	for i := range 1_000 {
		line += fmt.Sprintf(",f%d=1", i)
	}
	r.post(t, request("/write?db=d", line)) // every field has the long tag in its key
	eventually(t, "no worker at work", func() bool { return len(r.workers.slots) == 0 })
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	for _, w := range r.workers.mu.resting {
		if n := w.batch.MemoryBytes() + w.splitter.MemoryBytes(); n > restingBytesMax {
			t.Errorf("a worker at rest holds %d bytes", n)
		}
	}
}

// A block that cannot hold what it announces asks for no memory.
func TestSnappyBomb(t *testing.T) {
	r := start(t, nil)
	bomb := "\x80\x80\x80\x20\x00\x00" // 64 MiB
	if n, err := snappy.DecodedLen([]byte(bomb)); n != 64<<20 || err != nil {
		t.Fatalf("the bomb is of %d bytes, %v", n, err)
	}
	response, body := r.post(t, request("/api/v1/write", bomb))
	if response.StatusCode != 400 || !strings.Contains(body, "6 bytes cannot hold 67108864") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	dense := snappy.Encode(nil, []byte(strings.Repeat("\x1a\x00", 1<<20))) // as dense as snappy gets
	if response, body = r.post(t, request("/api/v1/write", string(dense))); response.StatusCode != 204 {
		t.Errorf("%d bytes of snappy: %d %s", len(dense), response.StatusCode, body)
	}
}

// A body that was read whole and cannot be used leaves its connection alive.
func TestKeepAliveAfterErrors(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	for _, q := range []struct {
		raw    string
		status int
	}{
		{request("/write?db=d", "no gzip", "Content-Encoding: gzip"), 400},
		{request("/write?db=d", "m value=1", "Content-Encoding: br"), 415},
		{request("/api/v1/write", "\xff\xff"), 400},
		{request("/api/put", "[{"), 400},
		{request("/write?db=d&precision=x", "m value=1"), 400},
		{request("/write?db=d&precision=s", "m value=1 1700000000"), 204},
	} {
		send(t, c, q.raw)
		if response, body := readAnswer(t, from); response.StatusCode != q.status || response.Close {
			t.Errorf("%q: %d %s, close %v", q.raw, response.StatusCode, body, response.Close)
		}
	}
	equalLines(t, "stored", r.stored(), []string{"d/m{} 1700000000000 1"})
}

// Who takes the HTTP port for another one is told where to go.
func TestNotHTTP(t *testing.T) {
	r := start(t, nil)
	ports := []string{
		fmt.Sprintf("put lines go to TCP port %d", r.Addresses().Put.(*net.TCPAddr).Port),
		fmt.Sprintf("line protocol goes to TCP port %d", r.Addresses().Line.(*net.TCPAddr).Port),
	}
	for _, line := range []string{"put m 1700000000 1 a=b\n", "cpu,host=a value=1\n", "version\n", "CPU,host=a value=1\r\n"} {
		response, body := r.post(t, line)
		if response.StatusCode != 400 || !strings.Contains(body, ports[0]) || !strings.Contains(body, ports[1]) {
			t.Errorf("%q: %d %s", line, response.StatusCode, body)
		}
	}
}

// A client that asks first is told that its body is too large before it sends it.
func TestExpectTooLarge(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.BodyBytesMax = 1000; o.Limits.OtherBodyBytesMax = 100 })
	for target, length := range map[string]int{"/write": 1001, "/api/query": 101} {
		response, body := r.post(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", target, length))
		if response.StatusCode != 413 || !strings.Contains(body, "too large") || !response.Close {
			t.Errorf("%s: %d %s, close %v", target, response.StatusCode, body, response.Close)
		}
	}
}

// Answers before the end of what a client sends are heard by it.
func TestAnswersAreHeard(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.HTTPHeaderBytesMax = 4096 })
	rest := strings.Repeat("z", 100<<10) // what the sockets' buffers hold
	for _, q := range []struct {
		name, send, want string
		to               net.Addr
	}{
		{"long headers", "GET /ping HTTP/1.1\r\nHost: x\r\nX-Long: " + rest, "431", r.Addresses().HTTP},
		{"not HTTP", "put m 1700000000 1 a=b\n" + rest, "400", r.Addresses().HTTP},
		{"exit", "put m x 1 a=b\nexit\n" + rest, "put: invalid value", r.Addresses().Put},
	} {
		c := dial(t, q.to)
		send(t, c, q.send)
		_ = c.SetReadDeadline(time.Now().Add(testTimeout))
		answer, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(answer), q.want) {
			t.Errorf("%s: %q, %v", q.name, answer, err)
		}
	}
}

// Thousands of long lines that do not end take bounded memory: beyond the bound a
// line is refused, and its connection goes on behind it.
func TestUnfinishedLinesAreBounded(t *testing.T) {
	r := start(t, func(o *Options) {
		o.TCP.ChunkBytes, o.Limits.Line.LineBytesMax = 4096, 40_000
		o.Limits.BodyBytesMax, o.Limits.BodyBytesDecodedMax, o.Limits.OtherBodyBytesMax = 1000, 1000, 1000
		o.Limits.InFlightBytesMax = 160_000 // a quarter for what waits
	})
	const long = 15_000
	var all []*net.TCPConn
	for i := range 3 {
		c := dial(t, r.Addresses().Put)
		all = append(all, c)
		send(t, c, fmt.Sprintf("put m%d 1700000000 1 a=%s", i, strings.Repeat("y", long)))
		if i < 2 {
			eventually(t, "the line held", func() bool { return r.streams.waiting.used.Load() > int64((i+1)*long) })
		}
	}
	refusal := "put: Please throttle writes: too many unfinished lines of more than 1024 bytes\n"
	answer := make([]byte, len(refusal))
	if _, err := io.ReadFull(all[2], answer); err != nil || string(answer) != refusal {
		t.Fatalf("%q, %v", answer, err)
	}
	for i, c := range all {
		if out := exchangeOn(t, c, fmt.Sprintf("y\nput n%d 1700000000 1\n", i)); out != "" {
			t.Errorf("connection %d: %q", i, out)
		}
	}
	equalLines(t, "stored", r.stored(), []string{
		"m0{a=" + strings.Repeat("y", long+1) + "} 1700000000000 1", "m1{a=" + strings.Repeat("y", long+1) + "} 1700000000000 1",
		"n0{} 1700000000000 1", "n1{} 1700000000000 1", "n2{} 1700000000000 1",
	})
	if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=tcp_put", "outcome=refused"); got != 1 {
		t.Errorf("%v refused, want 1", got)
	}
}

// Replies that nobody reads take bounded memory over all connections, too.
func TestUnreadRepliesAreBounded(t *testing.T) {
	r := start(t, func(o *Options) { o.TCP.ReplyBytesMax = 1 << 20 })
	r.streams.waiting.bytesMax = 100_000
	bad := strings.Repeat("put m 1700000000 1 a="+strings.Repeat("y", 1000)+"!\n", 400)
	var all []*net.TCPConn
	for n := range 2 {
		c := dial(t, r.Addresses().Put)
		all = append(all, c)
		for range 28 { // more answers than the sockets' buffers hold
			send(t, c, bad)
		}
		send(t, c, fmt.Sprintf("put good 1700000000 1 n=%d\n", n))
	}
	eventually(t, "all good lines stored", func() bool { return r.total() == len(all) })
	if got := r.metric(t, "tickmesh_ingest_dropped_total", "cause=slow_reader"); got == 0 {
		t.Error("no reply bytes were dropped")
	}
	const lineBytesMax = 2000 // of a reply, whose end follows whatever the bound
	if got := r.streams.waiting.used.Load(); got > 100_000+int64(len(all))*lineBytesMax {
		t.Errorf("%d bytes wait", got)
	}
	for _, c := range all {
		_ = c.CloseWrite()
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(answer)) {
			if !strings.HasPrefix(line, "put: ") || !strings.HasSuffix(line, "\n") || len(line) > lineBytesMax {
				t.Fatalf("a cut line: %q", line)
			}
		}
	}
}

// A connection that says nothing, at its start or between two requests, is closed
// without a word.
func TestIdleConnectionsEnd(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.HTTPIdleTimeout = 50 * time.Millisecond })
	silent := dial(t, r.Addresses().HTTP)
	var from *bufio.Reader
	eventually(t, "an answer on a connection that is not idle", func() bool { // on a busy machine it soon is
		kept := dial(t, r.Addresses().HTTP)
		if _, err := io.WriteString(kept, request("/write?db=d&precision=s", "m value=1 1700000000")); err != nil {
			return false
		}
		from = bufio.NewReader(kept)
		response, err := http.ReadResponse(from, nil)
		if err == nil && response.StatusCode != 204 {
			t.Fatal(response.Status)
		}
		return err == nil && response.Body.Close() == nil
	})
	for name, c := range map[string]io.Reader{"silent": silent, "kept alive": from} {
		if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
	}
	eventually(t, "no connection open", func() bool { return r.metric(t, "tickmesh_ingest_connections", "port=http") == 0 })
}
