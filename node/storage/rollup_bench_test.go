package storage

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// BenchmarkWindowsOfMonth asks for windows over 30 days of one series with a sample each
// 10 s: such that rollups tell, such that need the samples, and the samples themselves.
func BenchmarkWindowsOfMonth(b *testing.B) {
	e, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SyncLog: func() error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	const samples, inBatch = 30 * 8640, 8640
	for day := range int64(samples / inBatch) {
		var batch series.BatchEncoder
		at := batch.Define(benchKey(0))
		for i := range int64(inBatch) {
			batch.Append(at, rollupStartMs+(day*inBatch+i)*10_000, (i*i+day)%977, 2)
		}
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: uint64(day + 1), Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			b.Fatal(err)
		}
	}
	if err := e.Checkpoint(Checkpoint{Applied: []uint64{samples / inBatch}, SealAll: true}); err != nil {
		b.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	for more := true; more; {
		if more, err = e.Compact(context.Background(), rollupStartMs+100*segment.DayMs); err != nil {
			b.Fatal(err)
		}
	}
	means := scan.AggregateSum | scan.AggregateCount
	for _, c := range []struct {
		name    string
		windows *scan.Windows
	}{
		{"hours/rollups", &scan.Windows{WidthMs: segment.HourMs, Aggregates: means}},
		{"hours/samples", &scan.Windows{WidthMs: segment.HourMs, Aggregates: means | scan.AggregateLast}},
		{"days/rollups", &scan.Windows{WidthMs: segment.DayMs, Aggregates: means}},
		{"all/rollups", &scan.Windows{OriginMs: 1, WidthMs: 1000 * segment.DayMs, Aggregates: means}},
		{"none", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				request := &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: 0, ToMs: scan.TimeMsMax, Windows: c.windows}
				if err := e.Scan(context.Background(), request, func(int, *scan.Chunk) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
