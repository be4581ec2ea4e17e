package ingest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// known is a Writer that does nothing and a Resolver that knows every series.
type known struct {
	mu   sync.RWMutex
	refs map[string]series.Ref
	next uint32
}

func (k *known) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	for i, key := range keys {
		refs[i] = k.resolve(key)
	}
}

func (k *known) resolve(key series.Key) series.Ref {
	k.mu.RLock()
	ref, ok := k.refs[string(key)]
	k.mu.RUnlock()
	if ok {
		return ref
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	ref = series.Ref{Hint: k.next, Shard: key.Shard(128), ID: series.ID(k.next)}
	k.refs[string(key)] = ref
	return ref
}

func (k *known) Write(context.Context, *series.Frame) (series.Outcome, error) {
	return series.Outcome{Copies: 1}, nil
}

// benchBody returns 200 points of 10 sensors of one device: 20 lines of line
// protocol, or 200 put lines.
func benchBody(device int, put bool) string {
	var b strings.Builder
	for row := range 20 {
		timeMs := 1_700_000_000_000 + 1000*row
		if !put {
			fmt.Fprintf(&b, "m,device=d_%d ", device)
		}
		for sensor := range 10 {
			value := strconv.FormatFloat(20+float64(row*7+sensor*13%100)/100, 'f', 2, 64)
			if put {
				fmt.Fprintf(&b, "put m %d %s device=d_%d sensor=s_%d\n", timeMs, value, device, sensor)
				continue
			}
			if sensor > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "s_%d=%s", sensor, value)
		}
		if !put {
			fmt.Fprintf(&b, " %d\n", timeMs)
		}
	}
	return b.String()
}

func benchServer(b *testing.B) *Server {
	b.Helper()
	k := &known{refs: map[string]series.Ref{}}
	s, err := New(Options{
		HTTPAddress: "127.0.0.1:0", PutAddress: "127.0.0.1:0", LineAddress: "127.0.0.1:0",
		Writer: k, Resolver: k, Shards: 128, Other: http.HandlerFunc(benchAnswer),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	})
	return s
}

// benchAnswer answers as many bytes as the parameter x says.
func benchAnswer(w http.ResponseWriter, r *http.Request) {
	left, _ := strconv.Atoi(r.URL.Query().Get("x"))
	piece := make([]byte, min(left, 32<<10))
	for ; left > 0; left -= len(piece) {
		_, _ = w.Write(piece[:min(left, len(piece))])
	}
}

const (
	benchConnections = 200
	benchPoints      = 200 // of one body
)

// BenchmarkHTTP posts prebuilt bodies from 200 connections, each waiting for its
// answer, over loopback; client and server share the processors.
func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name, target string
		put          bool
	}{
		{"line", "/write?db=d&precision=ms", false},
		{"put", "/api/put", true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchServer(b)
			benchClients(b, s.Addresses().HTTP, func(device int) string {
				return request(c.target, benchBody(device, c.put))
			})
		})
	}
}

// benchClients sends b.N requests in all.
func benchClients(b *testing.B, to net.Addr, raw func(device int) string) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for device := range benchConnections {
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			b.Fatal(err)
		}
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			defer c.Close()
			text := []byte(raw(device))
			answer := make([]byte, 4096)
			ready.Done()
			<-begin
			for left.Add(-1) >= 0 {
				if _, err := c.Write(text); err != nil {
					b.Error(err)
					return
				}
				n, err := c.Read(answer)
				if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 204")) {
					b.Errorf("%q, %v", answer[:n], err)
					return
				}
			}
		}()
	}
	ready.Wait()
	b.ReportAllocs()
	b.ResetTimer()
	close(begin)
	done.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)*benchPoints/b.Elapsed().Seconds()/1e6, "Mpoints/s")
}

// BenchmarkTCP sends prebuilt bodies from 200 connections without waiting, and
// ends when every connection's `version`, or the server's counter, says that all
// were written.
func BenchmarkTCP(b *testing.B) {
	for _, c := range []struct {
		name string
		put  bool
	}{{"line", false}, {"put", true}} {
		b.Run(c.name, func(b *testing.B) {
			s := benchServer(b)
			to, p := s.Addresses().Line, protocolLineTCP
			if c.put {
				to, p = s.Addresses().Put, protocolPutTCP
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var done sync.WaitGroup
			begin := make(chan struct{})
			for device := range benchConnections {
				conn, err := net.Dial("tcp", to.String())
				if err != nil {
					b.Fatal(err)
				}
				done.Add(1)
				go func() {
					defer done.Done()
					defer conn.Close()
					text := []byte(strings.Repeat(benchBody(device, c.put), 10))
					<-begin
					for left.Add(-10) > -10 {
						if _, err := conn.Write(text); err != nil {
							b.Error(err)
							return
						}
					}
				}()
			}
			b.ReportAllocs()
			b.ResetTimer()
			close(begin)
			done.Wait()
			sent := int64((b.N + 9) / 10 * 10 * benchPoints)
			for s.metrics.protocols[p].accepted.Load() < sent {
				time.Sleep(100 * time.Microsecond)
			}
			b.StopTimer()
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
		})
	}
}

// BenchmarkHTTPOneConnection posts pipelined requests on one connection: the
// server's cost of a request without waking anybody.
func BenchmarkHTTPOneConnection(b *testing.B) {
	s := benchServer(b)
	c, err := net.Dial("tcp", s.Addresses().HTTP.String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	text := []byte(strings.Repeat(request("/write?db=d&precision=ms", benchBody(1, false)), 16))
	from := bufio.NewReaderSize(c, 64<<10)
	ends := 0
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%16 == 0 {
			if _, err := c.Write(text); err != nil {
				b.Fatal(err)
			}
		}
		for { // an answer ends with an empty line
			line, err := from.ReadSlice('\n')
			if err != nil && err != io.EOF {
				b.Fatal(err)
			}
			if len(line) <= 2 {
				ends++
				break
			}
		}
	}
	b.ReportMetric(float64(ends)*benchPoints/b.Elapsed().Seconds()/1e6, "Mpoints/s")
}

// BenchmarkHTTPTurns sends requests on one connection, each when the one before it is answered: writes,
// questions with short and long answers, and both in turns.
func BenchmarkHTTPTurns(b *testing.B) {
	write := request("/write?db=d&precision=ms", benchBody(1, false))
	question := "GET /q?x=1000 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"
	for _, bench := range []struct {
		name string
		raw  []string
	}{
		{"write", []string{write}}, {"question", []string{question}}, {"both", []string{write, question}},
		{"long", []string{strings.Replace(question, "1000", "3000000", 1)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := benchServer(b)
			c, err := net.Dial("tcp", s.Addresses().HTTP.String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			from := bufio.NewReader(c)
			for b.Loop() {
				for _, raw := range bench.raw {
					if _, err := io.WriteString(c, raw); err != nil {
						b.Fatal(err)
					}
					response, err := http.ReadResponse(from, nil)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
				}
			}
		})
	}
}

// BenchmarkIdleConnections measures what a put connection holds that has sent one
// line and waits: both ends of it, as they share the process.
func BenchmarkIdleConnections(b *testing.B) {
	const connections = 2000
	for b.Loop() {
		s := benchServer(b)
		before := memoryInUse()
		var open []net.Conn
		for range connections {
			c, err := net.Dial("tcp", s.Addresses().Put.String())
			if err != nil {
				b.Fatal(err)
			}
			open = append(open, c)
			if _, err := io.WriteString(c, "put m 1700000000 1 a=b\n"); err != nil {
				b.Fatal(err)
			}
		}
		for s.metrics.protocols[protocolPutTCP].accepted.Load() < connections {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(memoryInUse()-before)/connections, "B/connection")
		for _, c := range open {
			_ = c.Close()
		}
	}
}

// memoryInUse returns the bytes of heap and stacks after collections.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
