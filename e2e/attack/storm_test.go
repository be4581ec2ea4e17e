package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// storm sends malformed input to one port for a while.
type storm struct {
	name    string
	network string // tcp or udp
	address string
	samples [][]byte // well-formed input, to be cut and changed
}

// storms are those of a standalone server.
func (g *ground) storms() []storm {
	auth := []byte("auth token " + token(userOther) + "\n")
	return []storm{
		{"http", "tcp", g.at.HTTP, httpSamples()},
		{"put", "tcp", g.at.Put, [][]byte{[]byte("put a 1700000000 1 b=c\n"), append(auth, "put a 1700000000 1 b=c\nversion\nstats\n"...)}},
		{"line", "tcp", g.at.Line, [][]byte{[]byte("a,b=c d=1,e=2i,f=\"g\" 1700000000000000000\n"), append(auth, "a b=1\n"...)}},
		{"graphite", "tcp", g.at.Graphite, [][]byte{
			[]byte("a.b;c=d 1 1700000000\n"), slices.Concat(auth, []byte("a 1 -1\n")), slices.Concat(auth, []byte(graphitePickle)), []byte(graphitePickle),
		}},
		{"metrics", "tcp", g.metrics, httpSamples()},
		{"udp", "udp", g.udp, [][]byte{[]byte("put a 1700000000 1 b=c\n"), []byte("a,b=c d=1\n")}},
		{"otlp", "tcp", g.at.OTLP, grpcSamples("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")},
		{"grpc", "tcp", g.grpc, grpcSamples("/tickmesh.v1.WriteService/WriteStream")},
	}
}

// graphitePickle is a frame of [("a.b", (1, 7))].
const graphitePickle = "\x00\x00\x00\x11\x80\x02](U\x03a.bK\x01K\x07\x86\x86e."

func httpSamples() [][]byte {
	request := func(line, headers, body string) []byte {
		return fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", line, len(body), headers, body)
	}
	return [][]byte{
		request("POST /write?db=evil", "", "a,b=c d=1\n"),
		request("POST /api/put?details", "Content-Type: application/json\r\n", `[{"metric":"a","timestamp":1700000000,"value":1,"tags":{"b":"c"}}]`),
		request("POST /api/v1/write", "Content-Encoding: snappy\r\nContent-Type: application/x-protobuf\r\n", "\x10\x3c\x0a\x0e\x0a\x0c\x0a\x08__name__\x12\x00"),
		request("POST /api/query", "", `{"start":"1h-ago","queries":[{"aggregator":"sum","metric":"wide"}]}`),
		request("GET /api/v1/query?query=up", "", ""),
		request("GET /query?db=evil&q=show+databases", "", ""),
		[]byte("POST /write?db=evil HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na b=1\n\r\n0\r\n\r\n"),
		[]byte("POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"),
		[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		request("OPTIONS *", "Expect: 100-continue\r\nConnection: upgrade\r\nUpgrade: h2c\r\n", ""),
	}
}

// way is one way to be malformed: it writes to a connection as long as the context lasts.
type way struct {
	name string
	send func(ctx context.Context, rng *rand.Rand, c net.Conn, sample []byte) error
}

// hugeBytes is the size of input that never ends in a sensible place.
const hugeBytes = 16 << 20

func ways() []way {
	return []way{
		{"random", func(_ context.Context, rng *rand.Rand, c net.Conn, _ []byte) error {
			return write(c, randomBytes(rng, 1+rng.IntN(4096)))
		}},
		{"cut", func(_ context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			if err := write(c, sample[:rng.IntN(len(sample))]); err != nil {
				return err
			}
			if tcp, ok := c.(*net.TCPConn); ok && rng.IntN(2) == 0 {
				return tcp.SetLinger(0) // ends by RST
			}
			return nil
		}},
		{"changed", func(_ context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			return write(c, changed(rng, sample))
		}},
		{"huge", func(ctx context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			if err := write(c, sample[:rng.IntN(len(sample))]); err != nil {
				return err
			}
			block := bytes.Repeat([]byte{"aA0 ,={[(%\"\\\x00\xff"[rng.IntN(14)]}, 64<<10)
			for sent := 0; sent < hugeBytes && ctx.Err() == nil; sent += len(block) {
				if err := write(c, block); err != nil {
					return err
				}
			}
			return nil
		}},
		{"deep", func(_ context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			open := []string{"[", "{\"a\":", "(", "%28", "a=", "\x0a\xff\xff\x03"}[rng.IntN(6)]
			body := strings.Repeat(open, 100_000)
			if bytes.Contains(sample, []byte("HTTP/1")) {
				path := []string{"/api/put", "/api/query", "/api/query/last", "/query", "/api/v1/query", "/ui/api/cancel"}[rng.IntN(6)]
				return write(c, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
			}
			return write(c, []byte(body))
		}},
		{"slow", func(ctx context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			for _, b := range sample {
				if err := write(c, []byte{b}); err != nil {
					return err
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Duration(20+rng.IntN(80)) * time.Millisecond):
				}
			}
			return nil
		}},
		{"half open", func(ctx context.Context, rng *rand.Rand, c net.Conn, sample []byte) error {
			if err := write(c, sample[:rng.IntN(len(sample))]); err != nil {
				return err
			}
			if tcp, ok := c.(*net.TCPConn); ok && rng.IntN(2) == 0 {
				_ = tcp.CloseWrite()
			}
			<-ctx.Done()
			return nil
		}},
	}
}

// write writes within a time in which a server that reads has read.
func write(c net.Conn, content []byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := c.Write(content)
	return err
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// changed is a sample with a few bytes changed, taken out or repeated.
func changed(rng *rand.Rand, sample []byte) []byte {
	b := bytes.Clone(sample)
	for range 1 + rng.IntN(8) {
		at := rng.IntN(len(b) + 1)
		switch rng.IntN(4) {
		case 0:
			if at < len(b) {
				b[at] = byte(rng.Uint32())
			}
		case 1:
			b = append(b[:at:at], b[min(len(b), at+rng.IntN(8)):]...)
		case 2:
			b = append(b[:at:at], append(bytes.Repeat(b[max(0, at-rng.IntN(8)):at], rng.IntN(64)), b[at:]...)...)
		case 3:
			b = append(b[:at:at], append([]byte("18446744073709551616"), b[at:]...)...)
		}
	}
	return append(b, sample...) // what follows must not be taken for a part of it
}

// many is how many connections stand at once in the ways that hold them.
const many = 300

// rage runs every way at the port at once, for a time.
func (s storm) rage(t *testing.T, seed uint64, spy *spy, length time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for w, way := range ways() {
		if s.network == "udp" && (way.name == "half open" || way.name == "slow" || way.name == "huge") {
			continue
		}
		connections := 2
		if way.name == "slow" || way.name == "half open" {
			connections = many
		}
		for n := range connections {
			rng := rand.New(rand.NewPCG(seed, uint64(w<<32|n)))
			all.Go(func() {
				for ctx.Err() == nil {
					s.once(ctx, rng, way, spy)
				}
			})
		}
	}
	all.Wait()
}

// once makes one connection and reads what comes.
func (s storm) once(ctx context.Context, rng *rand.Rand, w way, spy *spy) {
	dialer := net.Dialer{Timeout: time.Second}
	if s.network == "tcp" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(attacker(rng.IntN(100)))}
	}
	c, err := dialer.DialContext(ctx, s.network, s.address)
	if err != nil {
		select { // the server may take no more: that is its right
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		return
	}
	defer c.Close()
	var received bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&received, io.LimitReader(c, 1<<20))
	}()
	_ = w.send(ctx, rng, c, s.samples[rng.IntN(len(s.samples))]) // the server may refuse to read
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	<-read
	spy.see("storm of "+w.name+" at "+s.name, "", received.Bytes())
}

// flood holds connections open that send nothing, as many as a machine gives.
func flood(t *testing.T, address string, count int) (release func()) {
	t.Helper()
	var held []net.Conn
	for n := range count {
		dialer := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(attacker(n))}}
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			break
		}
		held = append(held, c)
	}
	return func() {
		for _, c := range held {
			c.Close()
		}
	}
}
