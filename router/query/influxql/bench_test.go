package influxql

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// readySource visits chunks that were made before, so that a benchmark measures what comes
// after a scan.
type readySource struct {
	scan.Source
	chunks []scan.Chunk
}

func (s *readySource) Scan(_ context.Context, r *scan.Request, visit scan.Visitor) error {
	workers := max(1, r.Parallel)
	failures := make(chan error, workers)
	for w := range workers {
		go func() {
			for i := w; i < len(s.chunks); i += workers {
				if err := visit(w, &s.chunks[i]); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	var first error
	for range workers {
		if err := <-failures; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Last visits the end of each chunk.
func (s *readySource) Last(_ context.Context, _ *scan.Selector, _ int64, _ scan.Limits, visit func(scan.Point) error) error {
	for i := range s.chunks {
		c := &s.chunks[i]
		if err := visit(scan.Point{Key: c.Key, Sample: series.Sample{TimeMs: c.Times[len(c.Times)-1], Value: c.Values[len(c.Values)-1]}}); err != nil {
			return err
		}
	}
	return nil
}

// discard is a client that reads and forgets.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func benchmark(b *testing.B, source scan.Source, query string) {
	h := New(Options{Source: source})
	target := "/query?epoch=ms&q=" + url.QueryEscape(query)
	var d discard
	b.ReportAllocs()
	for b.Loop() {
		d = discard{header: http.Header{}}
		access.Open(h).ServeHTTP(&d, httptest.NewRequest("GET", target, nil))
	}
	b.ReportMetric(float64(d.bytes), "answer-bytes")
}

const benchStartMs = 1_600_002_000_000

// readyChunks returns series of one measurement, with windows of a minute or with samples.
func readyChunks(seriesCount, perSeries int, sampled bool) *readySource {
	m := scantest.NewMemory()
	s := &readySource{Source: m}
	for i := range seriesCount {
		c := scan.Chunk{Key: scantest.Key("", "cpu", "hostname", fmt.Sprintf("host_%04d", i), "region", fmt.Sprintf("eu-%d", i%20))}
		_ = m.Put(c.Key, series.Sample{TimeMs: benchStartMs, Value: 1})
		for n := range perSeries {
			v := float64(i*n%977) + 0.25
			if sampled {
				c.Times, c.Values = append(c.Times, benchStartMs+int64(n)*10_000), append(c.Values, v)
				continue
			}
			c.Times = append(c.Times, benchStartMs+int64(n)*60_000)
			c.Sum, c.Count, c.Max = append(c.Sum, v), append(c.Count, 6), append(c.Max, v)
		}
		s.chunks = append(s.chunks, c)
	}
	return s
}

// BenchmarkGroup is an hour by the minute over 2,000 series, after the scan.
func BenchmarkGroup(b *testing.B) {
	const where = " FROM cpu WHERE time >= 1600002000s AND time < 1600005600s GROUP BY time(1m)"
	b.Run("mean", func(b *testing.B) { benchmark(b, readyChunks(2000, 60, false), "SELECT mean(value)"+where) })
	b.Run("mean-by-region", func(b *testing.B) { benchmark(b, readyChunks(2000, 60, false), "SELECT mean(value)"+where+", region") })
	b.Run("max-by-host", func(b *testing.B) { benchmark(b, readyChunks(2000, 60, false), "SELECT max(value)"+where+", hostname") })
	b.Run("percentile", func(b *testing.B) { benchmark(b, readyChunks(2000, 60, true), "SELECT percentile(value, 99)"+where) })
}

// BenchmarkRaw reads samples as they are.
func BenchmarkRaw(b *testing.B) {
	const where = " FROM cpu WHERE time >= 1600002000s AND time < 1600005600s"
	b.Run("one-series", func(b *testing.B) { benchmark(b, readyChunks(1, 360, true), "SELECT value"+where) })
	b.Run("2000-series", func(b *testing.B) { benchmark(b, readyChunks(2000, 360, true), "SELECT value, hostname"+where) })
	b.Run("2000-series-by-host", func(b *testing.B) {
		benchmark(b, readyChunks(2000, 360, true), "SELECT value"+where+" GROUP BY hostname")
	})
	b.Run("2000-series-limit", func(b *testing.B) {
		benchmark(b, readyChunks(2000, 360, true), "SELECT value"+where+" ORDER BY time DESC LIMIT 10")
	})
}

// BenchmarkLast is the newest value of 100,000 series, as one and by themselves.
func BenchmarkLast(b *testing.B) {
	s := readyChunks(100_000, 1, true)
	s.Source = readyChunks(1, 1, true).Source // the names of one are enough
	b.Run("one", func(b *testing.B) { benchmark(b, s, "SELECT last(value) FROM cpu") })
	b.Run("by-host", func(b *testing.B) { benchmark(b, s, "SELECT last(value) FROM cpu GROUP BY hostname") })
}
