package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// benchSeries are the series of BenchmarkScanManySeries.
const benchSeries = 1 << 18

// benchEngine is an engine that is written to in batches of each shard.
type benchEngine struct {
	*Engine
	b        *testing.B
	encoders []series.BatchEncoder
	counts   []int
	indexes  []uint64
}

func newBenchEngine(b *testing.B) *benchEngine {
	e, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), SyncLog: func() error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	shards := e.Shards()
	return &benchEngine{Engine: e, b: b, encoders: make([]series.BatchEncoder, shards), counts: make([]int, shards), indexes: make([]uint64, shards)}
}

// put adds a sample to the next batch of its shard.
func (e *benchEngine) put(key series.Key, timeMs, mantissa int64) {
	const inBatch = 1 << 10
	shard := e.Sharding().Of(key)
	encoder := &e.encoders[shard]
	encoder.Append(encoder.Define(key), timeMs, mantissa, 1)
	if e.counts[shard]++; e.counts[shard] == inBatch {
		e.apply(int(shard))
	}
}

func (e *benchEngine) apply(shard int) {
	body := samplesBody(e.encoders[shard].AppendTo(nil))
	e.indexes[shard]++
	if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Shard: uint16(shard), Term: 1, Index: e.indexes[shard], Body: body}); err != nil {
		e.b.Fatal(err)
	}
	e.encoders[shard].Reset()
	e.counts[shard] = 0
}

// applyAll applies the batches that have been begun.
func (e *benchEngine) applyAll() {
	for shard := range e.encoders {
		if e.counts[shard] > 0 {
			e.apply(shard)
		}
	}
}

// flushAll brings all samples into segments.
func (e *benchEngine) flushAll() {
	if err := e.Checkpoint(Checkpoint{Applied: make([]uint64, e.Shards()), SealAll: true}); err != nil {
		e.b.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		e.b.Fatal(err)
	}
}

// manySeries makes an engine with so many series of a few samples each.
func manySeries(b *testing.B, samples int) *Engine {
	e := newBenchEngine(b)
	for round := range samples {
		for i := range benchSeries {
			e.put(benchKey(i), 1_750_000_000_000+int64(round)*10_000, int64(i+round*7))
		}
		e.applyAll()
	}
	return e.Engine
}

func benchKey(i int) series.Key {
	return series.AppendKey(nil, nil, []byte("cpu.usage"), []series.Tag{
		{Name: []byte("host"), Value: fmt.Appendf(nil, "host%06d", i/10)},
		{Name: []byte("sensor"), Value: fmt.Appendf(nil, "s%d", i%10)},
	})
}

// BenchmarkScanManySeries counts the samples of very many series with few samples
// each: hot pages, pages of the page log, and segments.
func BenchmarkScanManySeries(b *testing.B) {
	e := manySeries(b, 3)
	b.Run("hot", func(b *testing.B) { scanAll(b, e) })
	if err := e.Checkpoint(Checkpoint{Applied: make([]uint64, e.Shards()), SealAll: true}); err != nil {
		b.Fatal(err)
	}
	b.Run("pages", func(b *testing.B) { scanAll(b, e) })
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("segments", func(b *testing.B) { scanAll(b, e) })
}

func scanAll(b *testing.B, e *Engine) {
	for b.Loop() {
		var count atomic.Int64
		request := &scan.Request{
			Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: 1_740_000_000_000, ToMs: 1_760_000_000_000,
			Windows:  &scan.Windows{OriginMs: 1_740_000_000_000, WidthMs: 20_000_000_001, Aggregates: scan.AggregateCount},
			Parallel: 1,
		}
		err := e.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
			count.Add(c.Count[0])
			return nil
		})
		if err != nil || count.Load() != 3*benchSeries {
			b.Fatal(count.Load(), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/series")
}

// BenchmarkLastManySeries reads the last sample of very many series, as
// BenchmarkScanManySeries has them.
func BenchmarkLastManySeries(b *testing.B) {
	e := manySeries(b, 3)
	last := func(b *testing.B) {
		for b.Loop() {
			count := 0
			err := e.Last(context.Background(), &scan.Selector{Metric: "cpu.usage"}, 1_740_000_000_000, scan.Limits{}, func(scan.Point) error {
				count++
				return nil
			})
			if err != nil || count != benchSeries {
				b.Fatal(count, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/series")
	}
	b.Run("hot", last)
	if err := e.Checkpoint(Checkpoint{Applied: make([]uint64, e.Shards()), SealAll: true}); err != nil {
		b.Fatal(err)
	}
	b.Run("pages", last)
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("segments", last)
}

// BenchmarkOneOfMany reads one of very many series, as BenchmarkScanManySeries has them: what a small query costs here.
func BenchmarkOneOfMany(b *testing.B) {
	e := manySeries(b, 3)
	_, _, tags, err := benchKey(7).Parts(nil)
	if err != nil {
		b.Fatal(err)
	}
	selector := scan.Selector{Metric: "cpu.usage"}
	for _, tag := range tags {
		selector.Matchers = append(selector.Matchers, scan.Matcher{Name: string(tag.Name), Kind: scan.MatchEqual, Values: []string{string(tag.Value)}})
	}
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request := &scan.Request{Selector: selector, FromMs: 1_740_000_000_000, ToMs: 1_760_000_000_000, Parallel: 2}
			visited := 0
			err := e.Scan(context.Background(), request, func(int, *scan.Chunk) error {
				visited++
				return nil
			})
			if err != nil || visited == 0 {
				b.Fatal(visited, err)
			}
		}
	})
	b.Run("last", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			visited := 0
			err := e.Last(context.Background(), &selector, 0, scan.Limits{}, func(scan.Point) error {
				visited++
				return nil
			})
			if err != nil || visited != 1 {
				b.Fatal(visited, err)
			}
		}
	})
}

// BenchmarkScanHour reads an hour of 2,000 series with a sample each 10 s, of which
// most is in the page log, by one worker.
func BenchmarkScanHour(b *testing.B) {
	const count, rows = 2000, 360
	e, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SyncLog: func() error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for row := range int64(rows) {
		var batch series.BatchEncoder
		for i := range count {
			batch.Append(batch.Define(benchKey(i)), 1_750_000_000_000+row*10_000, (int64(i)*31+row*row)%1009, 2)
		}
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: uint64(row + 1), Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			b.Fatal(err)
		}
	}
	scanHour := func(b *testing.B, windows *scan.Windows) {
		for b.Loop() {
			request := &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: 0, ToMs: scan.TimeMsMax, Windows: windows}
			if err := e.Scan(context.Background(), request, func(int, *scan.Chunk) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count/rows, "ns/sample")
	}
	minutes := &scan.Windows{WidthMs: 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount}
	b.Run("pages/samples", func(b *testing.B) { scanHour(b, nil) })
	b.Run("pages/minutes", func(b *testing.B) { scanHour(b, minutes) })
	if err := e.Checkpoint(Checkpoint{Applied: []uint64{rows}, SealAll: true}); err != nil {
		b.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("segments/samples", func(b *testing.B) { scanHour(b, nil) })
	b.Run("segments/minutes", func(b *testing.B) { scanHour(b, minutes) })
}
