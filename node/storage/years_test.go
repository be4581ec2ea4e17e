package storage

import (
	"math"
	"path"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestTenYearsByDay: months that were joined have rollups with ends, and a query by day over ten
// years reads these only, with the values of the samples.
func TestTenYearsByDay(t *testing.T) {
	const ids, stepMs = 2, 3 * 3600_000
	l := &rollupLab{t: t, fs: vfs.NewMemFS()}
	l.e = writeYears(t, Options{FS: l.fs, Dir: "/data", Shards: 1, SyncLog: func() error { return nil }}, ids, stepMs)
	defer l.e.Close()
	names, err := l.fs.List(path.Join("/data", dirSegments))
	if err != nil {
		t.Fatal(err)
	}
	months := 0
	for _, name := range names {
		r, err := segment.Open(l.fs, path.Join("/data", dirSegments, name))
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Meta(); !m.DayRollups || !m.Rollups || !m.ScanSums || m.Partition != segment.PartitionOf(m.MinMs, segment.SpanMonth) {
			t.Errorf("%+v: not a month with rollups", m)
		}
		months++
		if err := r.Release(); err != nil {
			t.Error(err)
		}
	}
	if months < 121 || months > 3*121 { // from the middle of the first to that of the last
		t.Errorf("%d files", months)
	}
	before := l.e.Stats()
	w := &scan.Windows{WidthMs: segment.DayMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast}
	got := l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: w})
	after := l.e.Stats()
	if rollups := after.ScannedRollups - before.ScannedRollups; rollups != ids*tenYears || after.ScannedSamples-before.ScannedSamples != rollups {
		t.Errorf("%d rollups, %d samples with them", rollups, after.ScannedSamples-before.ScannedSamples)
	}
	for key, of := range l.scanned(&scan.Request{FromMs: math.MinInt64 / 4, ToMs: math.MaxInt64 / 4}) {
		if want := windowsByHours(w, of.Times, of.Values); got[key] == nil || bitsOf(got[key]) != bitsOf(&want) {
			t.Errorf("%s: windows of rollups are not those of samples", key)
		}
	}
}
