package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

const versionAnswer = "tickmesh 0.1.0 built at revision abcdef0\nBuilt on 2026-11-21\n"

// exchange sends text, closes the sending side and returns all that comes back.
func exchange(t *testing.T, to net.Addr, text string) string {
	t.Helper()
	return exchangeOn(t, dial(t, to), text)
}

func exchangeOn(t *testing.T, c *net.TCPConn, text string) string {
	t.Helper()
	send(t, c, text)
	_ = c.CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestTelnet(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		stored        []string
	}{
		{"silence", "put m 1700000000 1.5 host=a\n", "", []string{"m{host=a} 1700000000000 1.5"}},
		{"milliseconds", "put m 1700000000123 1 a=b\r\nput m 1700000001.250 2 a=b\r\n", "", []string{"m{a=b} 1700000000123 1", "m{a=b} 1700000001250 2"}},
		{"no tags", "put m 1700000000 1\n", "", []string{"m{} 1700000000000 1"}},
		{"last line without an end", "put m 1700000000 1 a=b\nput m 1700000001 2 a=b", "put: " + unendedAnswer, []string{"m{a=b} 1700000000000 1"}},
		{"version", "version\n", versionAnswer, nil},
		{"version after puts", "put m 1700000000 1 a=b\nversion\n", versionAnswer, []string{"m{a=b} 1700000000000 1"}},
		{"help", "help\n", "available commands: dropcaches exit help put quit stats status version \n", nil},
		{"dropcaches", "dropcaches\n", "Caches dropped.\n", nil},
		{"status", "status\n", "ok\n", nil},
		{"diediedie", "diediedie\nversion\n", "diediedie: not supported, stop the process with a signal\n" + versionAnswer, nil},
		{"unknown", "hello world\n", "unknown command: hello.  Try `help'.\n", nil},
		{"exit", "put m 1700000000 1 a=b\nexit\n", "", []string{"m{a=b} 1700000000000 1"}},
		{"quit, and no answer after it", "quit\nversion\n", "", nil},
		{"order of errors and answers", "put m x 1 a=b\nversion\nput m 1700000000 x a=b\nput m 1700000000 1 a=b\n",
			"put: …\n" + versionAnswer + "put: …\n", []string{"m{a=b} 1700000000000 1"}},
		{"garbage", "\x00\xff\xfe\nput m 1700000000 1 a=b\n", "unknown command: …\n", []string{"m{a=b} 1700000000000 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			if out := exchange(t, r.Addresses().Put, c.in); !matches(out, c.out) {
				t.Errorf("answer:\n got %q\nwant %q", out, c.out)
			}
			equalLines(t, "stored", r.stored(), c.stored)
		})
	}
}

// matches compares texts; "…" in want stands for anything up to the line's end.
func matches(got, want string) bool {
	parts := strings.Split(want, "…")
	for i, part := range parts {
		if i > 0 {
			end := strings.IndexByte(got, '\n')
			if end < 0 {
				return false
			}
			got = got[end:]
		}
		if !strings.HasPrefix(got, part) {
			return false
		}
		got = got[len(part):]
	}
	return got == ""
}

func TestTelnetStats(t *testing.T) {
	r := start(t, nil)
	answer := exchange(t, r.Addresses().Put, "put m 1700000000 1 a=b\nstats\n")
	if !strings.Contains(answer, "tsd.rpc.received 1700000123 1 type=telnet host=") {
		t.Errorf("stats: %s", answer)
	}
	for line := range strings.Lines(answer) {
		if fields := strings.Fields(line); len(fields) < 5 || !strings.HasPrefix(fields[0], "tsd.") {
			t.Errorf("not a line of stats: %q", line)
		}
	}
}

const unendedAnswer = "the last line is dropped: the connection ended without a newline behind it\n"

func TestLinePort(t *testing.T) {
	r := start(t, nil)
	in := "m,a=b x=1 1700000000\nm,a=b x=2 1700000001000000000\nbad\n# comment\n\nm,a=b s=\"text\",x=3 1700000002000\nm,a=b x=4 1700000003"
	if out := exchange(t, r.Addresses().Line, in); out != "unable to parse 'bad': missing fields\n"+unendedAnswer {
		t.Errorf("answer: %q", out)
	}
	equalLines(t, "stored", r.stored(), []string{
		"m{_field=x,a=b} 1700000000000 1", "m{_field=x,a=b} 1700000001000 2", "m{_field=x,a=b} 1700000002000 3",
	})
	for outcome, want := range map[string]float64{"accepted": 3, "refused": 1, "skipped": 1, "failed": 0} {
		if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=tcp_line", "outcome="+outcome); got != want {
			t.Errorf("%v points %s, want %v", got, outcome, want)
		}
	}
	if got := r.metric(t, "tickmesh_ingest_dropped_total", "cause=unended"); got != 1 {
		t.Errorf("%v lines without an end are counted, want 1", got)
	}
}

// A stream cut into pieces anywhere has the same samples as the whole.
func TestPiecesOfAStream(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := range 300 {
		fmt.Fprintf(&text, "put m%d %d %d.5 host=h%d\n", i%7, 1_700_000_000+i, i, i%3)
		want = append(want, fmt.Sprintf("m%d{host=h%d} %d %d.5", i%7, i%3, (1_700_000_000+int64(i))*1000, i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		r := start(t, func(o *Options) { o.TCP.ChunkBytes = 64 + random.IntN(500) })
		c := dial(t, r.Addresses().Put)
		for rest := text.String(); rest != ""; {
			n := min(len(rest), 1+random.IntN(700))
			send(t, c, rest[:n])
			rest = rest[n:]
		}
		send(t, c, "version\n")
		answer := make([]byte, len(versionAnswer))
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != versionAnswer {
			t.Fatalf("version: %q, %v", answer, err)
		}
		equalLines(t, "stored at the answer to version", r.stored(), want)
	}
}

func TestOverLongLine(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.Line.LineBytesMax = 1000; o.TCP.ChunkBytes = 300 })
	in := "put m 1700000000 1 a=" + strings.Repeat("x", 5000) + "\nput m 1700000000 2 a=b\n"
	if out := exchange(t, r.Addresses().Put, in); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "put: illegal argument: ") {
		t.Errorf("answer: %q", out)
	}
	equalLines(t, "stored", r.stored(), []string{"m{a=b} 1700000000000 2"})
}

// HTTP on the put port, as OpenTSDB serves both on one port.
func TestHTTPOnThePutPort(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().Put)
	from := bufio.NewReader(c)
	for i := range 3 {
		send(t, c, request("/write?db=d&precision=s", fmt.Sprintf("m value=%d %d", i, 1_700_000_000+i)))
		if response, body := readAnswer(t, from); response.StatusCode != 204 {
			t.Fatalf("%d %s", response.StatusCode, body)
		}
	}
	equalLines(t, "stored", r.stored(), []string{"d/m{} 1700000000000 0", "d/m{} 1700000001000 1", "d/m{} 1700000002000 2"})
}

// While the storage is overloaded a connection waits, reads nothing and loses
// nothing.
func TestTCPWaitsOutAnOverload(t *testing.T) {
	var failures atomic.Int32
	failures.Store(5)
	for _, kind := range []error{series.ErrOverloaded, series.ErrUnavailable, series.ErrReadOnly} {
		r := start(t, func(o *Options) { o.TCP.RetryDelayMin = time.Millisecond })
		failures.Store(5)
		r.beforeWrites(func(context.Context) error {
			if failures.Add(-1) >= 0 {
				return kind
			}
			return nil
		})
		if out := exchange(t, r.Addresses().Put, "put m 1700000000 1 a=b\nput bad\nversion\n"); !matches(out, "put: …\n"+versionAnswer) {
			t.Errorf("%v: answer %q", kind, out)
		}
		equalLines(t, "stored", r.stored(), []string{"m{a=b} 1700000000000 1"})
		if got := r.metric(t, "tickmesh_ingest_write_errors_total"); got != 5 {
			t.Errorf("%v: %v errors counted, want 5", kind, got)
		}
	}
}

func TestTCPDropsAfterTheRetries(t *testing.T) {
	r := start(t, func(o *Options) { o.TCP.RetryDelayMin = time.Millisecond; o.TCP.RetryTimeout = 5 * time.Millisecond })
	r.beforeWrites(failing(series.ErrOverloaded, "no"))
	if out := exchange(t, r.Addresses().Put, "put m 1700000000 1 a=b\nput m 1700000001 1 a=b\nversion\n"); !matches(out, "put: Please throttle writes: 2 points dropped: …\n"+versionAnswer) {
		t.Errorf("answer %q", out)
	}
	if got := r.metric(t, "tickmesh_ingest_dropped_total", "cause=write"); got != 2 {
		t.Errorf("%v points dropped, want 2", got)
	}
	if got := r.metric(t, "tickmesh_ingest_points_total", "outcome=failed"); got != 2 {
		t.Errorf("%v points failed, want 2", got)
	}
}

// A client that sends bad lines and never reads does not stop its own good ones.
func TestSlowReader(t *testing.T) {
	r := start(t, func(o *Options) { o.TCP.ReplyBytesMax = 10_000 })
	c := dial(t, r.Addresses().Put)
	const rounds = 40 // more answers than the sockets' buffers hold
	bad := strings.Repeat("put m 1700000000 1 a="+strings.Repeat("y", 1000)+"!\n", 400)
	for i := range rounds {
		send(t, c, bad+fmt.Sprintf("put good %d 1 a=b\n", 1_700_000_000+i))
	}
	eventually(t, "all good lines stored", func() bool { return r.total() == rounds })
	if got := r.metric(t, "tickmesh_ingest_dropped_total", "cause=slow_reader"); got == 0 {
		t.Error("no reply bytes were dropped")
	}
	// What was held arrives in whole lines once the client reads.
	_ = c.CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) == 0 || answer[len(answer)-1] != '\n' {
		t.Errorf("%d bytes of answers, which end in %q", len(answer), answer[max(0, len(answer)-20):])
	}
	for line := range bytes.Lines(answer) {
		if !bytes.HasPrefix(line, []byte("put: ")) {
			t.Fatalf("a cut line: %q", line)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.ConnectionsMax = 1 })
	for _, c := range []struct {
		name, answer string
		to           net.Addr
	}{
		{"put", "put: Please throttle writes: too many connections\n", r.Addresses().Put},
		{"line", "too many connections\n", r.Addresses().Line},
		{"http", refusalHTTP, r.Addresses().HTTP},
	} {
		first := dial(t, c.to)
		eventually(t, "one connection open", func() bool { return r.metric(t, "tickmesh_ingest_connections", "port="+c.name) == 1 })
		second := dial(t, c.to)
		answer, err := io.ReadAll(second)
		if err != nil || string(answer) != c.answer {
			t.Errorf("%s: %q, %v", c.name, answer, err)
		}
		_ = second.Close()
		_ = first.Close()
		eventually(t, "the first has gone", func() bool { return r.metric(t, "tickmesh_ingest_connections", "port="+c.name) == 0 })
		if got := r.metric(t, "tickmesh_ingest_connections_total", "port="+c.name, "outcome=refused"); got != 1 {
			t.Errorf("%s: %v refused, want 1", c.name, got)
		}
	}
}

// Many connections at once, each with its own series, cut at random.
func TestManyConnections(t *testing.T) {
	r := start(t, func(o *Options) { o.TCP.ChunkBytes = 512 })
	const connections, points = 40, 100
	var clients sync.WaitGroup
	failed := make(chan error, connections)
	for n := range connections {
		clients.Add(1)
		go func() {
			defer clients.Done()
			failed <- manyPoints(r.Addresses().Put, n, points)
		}()
	}
	clients.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	if got := r.total(); got != connections*points {
		t.Errorf("%d points stored, want %d", got, connections*points)
	}
	for n := range connections {
		for i := range points {
			if got := r.value(fmt.Sprintf("m{c=%d}", n), int64(1_700_000_000+i)*1000); got != float64(n*1000+i) {
				t.Fatalf("connection %d, point %d: %v", n, i, got)
			}
		}
	}
}

func manyPoints(to net.Addr, n, points int) error {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	for i := range points {
		if _, err := fmt.Fprintf(c, "put m %d %d c=%d\n", 1_700_000_000+i, n*1000+i, n); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(c, "version\n"); err != nil {
		return err
	}
	answer := make([]byte, len(versionAnswer))
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if string(answer) != versionAnswer {
		return errors.New("not the version: " + string(answer))
	}
	return nil
}
