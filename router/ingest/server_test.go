package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // fasthttp's clock never ends
}

const (
	testShards  = 8
	testTimeout = 60 * time.Second // a test that waits that long has failed
)

var testNow = time.UnixMilli(1_700_000_123_456)

// running is a started server over a memory.
type running struct {
	*Server
	*memory
	registry *prometheus.Registry
	stopped  bool
}

func start(t *testing.T, change func(*Options)) *running {
	t.Helper()
	m := newMemory(testShards)
	registry := prometheus.NewRegistry()
	o := Options{
		HTTPAddress: "127.0.0.1:0", PutAddress: "127.0.0.1:0", LineAddress: "127.0.0.1:0",
		Writer: m, Resolver: m, Shards: testShards, Registerer: registry,
		Clock: func() time.Time { return testNow },
		Build: Build{Version: "0.1.0", Revision: "abcdef0", Date: "2026-11-21"},
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, memory: m, registry: registry}
	t.Cleanup(func() {
		if !r.stopped {
			r.stop(t)
		}
		m.check(t)
	})
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Error("shutdown:", err)
	}
	if room, waiting := r.budgets.Writes.Stats().Used, r.streams.waiting.used.Load(); room != 0 || waiting != 0 {
		t.Errorf("after the end %d bytes are in flight and %d wait", room, waiting)
	}
}

func dial(t *testing.T, address net.Addr) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	return c.(*net.TCPConn)
}

// send writes raw bytes.
func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal("send:", err)
	}
}

// post sends one raw request on a connection of its own and returns the answer.
func (r *running) post(t *testing.T, raw string) (*http.Response, string) {
	t.Helper()
	c := dial(t, r.Addresses().HTTP)
	send(t, c, raw)
	return readAnswer(t, bufio.NewReader(c))
}

func readAnswer(t *testing.T, from *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal("answer:", err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal("answer:", err)
	}
	_ = response.Body.Close()
	return response, string(body)
}

// request words a POST.
func request(target, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s",
		target, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

func equalLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !holds(); {
		if time.Now().After(end) {
			t.Fatal("never:", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// metric sums the series of a metric that have all the labels "name=value".
func (r *running) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var total float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return total
}

func TestOptionsAreChecked(t *testing.T) {
	m := newMemory(1)
	good := func() Options { return Options{Writer: m, Resolver: m, Shards: 1} }
	for name, break_ := range map[string]func(*Options){
		"Writer":      func(o *Options) { o.Writer = nil },
		"Resolver":    func(o *Options) { o.Resolver = nil },
		"Shards":      func(o *Options) { o.Shards = 0 },
		"TagsMax":     func(o *Options) { o.Limits.Line.TagsMax = 5000 },
		"KeyBytesMax": func(o *Options) { o.Limits.Line.KeyBytesMax = 1 << 20 },
		"InFlight":    func(o *Options) { o.Limits.InFlightBytesMax = 1 },
		"Format":      func(o *Options) { o.UDP.Format = 9 },
		"negative":    func(o *Options) { o.TCP.ChunkBytes = -1 },
	} {
		o := good()
		break_(&o)
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: error is %v, want ErrOptions", name, err)
		}
	}
	s, err := New(good())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(context.Background()); !errors.Is(err, ErrState) {
		t.Errorf("second shutdown: %v, want ErrState", err)
	}
	if err := s.Start(); !errors.Is(err, ErrState) {
		t.Errorf("start after shutdown: %v, want ErrState", err)
	}
}

func TestStartFailsWhole(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	m := newMemory(1)
	s, err := New(Options{
		Writer: m, Resolver: m, Shards: 1,
		HTTPAddress: "127.0.0.1:0", PutAddress: taken.Addr().String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "put listener") {
		t.Fatalf("error is %v, want one that names the put listener", err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
