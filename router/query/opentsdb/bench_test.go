package opentsdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// readySource visits chunks that were made before, so that a benchmark measures
// what comes after a scan.
type readySource struct {
	scan.Source
	chunks []scan.Chunk
}

func (s *readySource) Scan(_ context.Context, r *scan.Request, visit scan.Visitor) error {
	workers := max(1, r.Parallel)
	errs := make(chan error, workers)
	for w := range workers {
		go func() {
			for i := w; i < len(s.chunks); i += workers {
				if err := visit(w, &s.chunks[i]); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range workers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// discard is a client that reads and forgets.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func benchmark(b *testing.B, source scan.Source, target string) { benchmarkBody(b, source, target, "") }

// benchmarkBody posts the body, unless it is empty.
func benchmarkBody(b *testing.B, source scan.Source, target, body string) {
	h := New(Options{Source: source})
	var d discard
	b.ReportAllocs()
	for b.Loop() {
		d = discard{header: http.Header{}}
		r := httptest.NewRequest("GET", target, nil)
		if body != "" {
			r = httptest.NewRequest("POST", target, strings.NewReader(body))
		}
		access.Open(h).ServeHTTP(&d, r)
	}
	b.ReportMetric(float64(d.bytes), "answer-bytes")
}

func windows(seriesCount, windowCount int, gaps bool) *readySource {
	s := &readySource{Source: scantest.NewMemory()}
	for i := range seriesCount {
		c := scan.Chunk{Key: scantest.Key("", "cpu.usage_user", "hostname", fmt.Sprintf("host_%04d", i), "region", fmt.Sprintf("eu-%d", i%20), "os", "debian12")}
		for w := range windowCount {
			if gaps && (i+w)%17 == 0 {
				continue
			}
			c.Times = append(c.Times, t0*1000+int64(w)*60_000)
			c.Sum = append(c.Sum, float64(i*w%977)+0.25)
			c.Count = append(c.Count, 6)
			c.Max = append(c.Max, float64(i*w%977)+0.25)
		}
		s.chunks = append(s.chunks, c)
	}
	return s
}

// BenchmarkGroup is an hour by the minute over 2,000 series, after the scan.
func BenchmarkGroup(b *testing.B) {
	const span = "/api/query?start=1600002000&end=1600005599&m="
	b.Run("aligned", func(b *testing.B) { benchmark(b, windows(2000, 60, false), span+"avg:1m-avg:cpu.usage_user") })
	b.Run("gaps", func(b *testing.B) { benchmark(b, windows(2000, 60, true), span+"avg:1m-avg:cpu.usage_user") })
	b.Run("churn", func(b *testing.B) { // the last minutes of many series that come in the order of shards
		s := windows(50_000, 5, true)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(s.chunks), func(i, j int) { s.chunks[i], s.chunks[j] = s.chunks[j], s.chunks[i] })
		benchmark(b, s, "/api/query?start=1600002000&end=1600002299&m=avg:1m-avg:cpu.usage_user")
	})
	b.Run("by-region", func(b *testing.B) {
		benchmark(b, windows(2000, 60, false), span+"max:1m-max:cpu.usage_user%7Bregion=*%7D")
	})
	b.Run("by-host", func(b *testing.B) {
		benchmark(b, windows(2000, 60, false), span+"max:1m-max:cpu.usage_user%7Bhostname=*%7D")
	})
	b.Run("p99", func(b *testing.B) { benchmark(b, windows(2000, 60, false), span+"p99:1m-max:cpu.usage_user") })
	b.Run("rate", func(b *testing.B) { benchmark(b, windows(2000, 60, false), span+"sum:rate:1m-max:cpu.usage_user") })
}

// BenchmarkOneSeries is one series of 3,600 samples.
func BenchmarkOneSeries(b *testing.B) {
	s := &readySource{Source: scantest.NewMemory()}
	c := scan.Chunk{Key: scantest.Key("", "m", "host", "a")}
	for i := range 3600 {
		c.Times = append(c.Times, t0*1000+int64(i)*1000)
		c.Values = append(c.Values, float64(i*7919%1000)/100)
	}
	s.chunks = append(s.chunks, c)
	const span = "/api/query?start=1600002000&end=1600005599&m="
	b.Run("raw", func(b *testing.B) { benchmark(b, s, span+"none:m") })
	b.Run("sum", func(b *testing.B) { benchmark(b, s, span+"sum:m") })
	b.Run("dev-1m", func(b *testing.B) { benchmark(b, s, span+"sum:1m-dev:m") })
	b.Run("point", func(b *testing.B) { benchmark(b, s, "/api/query?start=1600002000&end=1600002000&m=sum:m") })
}
