package read

import (
	"math/rand/v2"
	"path"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func TestPressure(t *testing.T) {
	var s pressure
	if s.next(0) {
		t.Fatal("pressure before the first fault")
	}
	for range 3 {
		faults := s.faults.Load() + 7
		if !s.next(faults) {
			t.Fatal("no pressure after a fault")
		}
		for i := range 2 * prefetchScans {
			if got, want := s.next(faults), i < prefetchScans; got != want {
				t.Fatalf("scan %d after a fault: %v", i, got)
			}
		}
	}
}

// TestPrefetchOfRollups: of segments with the rollups or digests that windows are made of, a scan asks
// for these and for the index, and for no blocks.
func TestPrefetchOfRollups(t *testing.T) {
	fs, asked, hints := vfs.NewMemFS(), map[int64]int64{}, 0 // offset: length
	fs.Advised = func(_ string, offset, length int64, advice vfs.Advice) {
		if advice == vfs.AdviceWillNeed {
			asked[offset] = max(asked[offset], length)
			hints++
		}
	}
	const seriesCount, days = 4, 30
	refs := make([]series.Ref, seriesCount)
	var month segment.Partition
	open := func(sequence uint64, rollups bool) *segment.Reader {
		month = segment.PartitionOf(0, segment.SpanMonth)
		w, err := segment.Create(segment.Options{FS: fs, Dir: "/", Partition: month, SequenceLow: sequence, SequenceHigh: sequence, Rollups: rollups})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for id := range refs {
			refs[id].ID = series.ID(id)
			var c codec.Columns
			for at := month.StartMs; at < month.StartMs+days*segment.DayMs; at += segment.HourMs / 60 {
				c.Append(at, series.FloatNumber(rng.NormFloat64()))
			}
			if err := w.Add(0, uint32(id), &c); err != nil {
				t.Fatal(err)
			}
		}
		meta, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r, err := segment.Open(fs, path.Join("/", meta.Name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Release(); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	prefetched := func(reader *segment.Reader, w *scan.Windows) (bytes int64) {
		clear(asked)
		hints = 0
		r := &Reader{Lease: &manifest.Lease{Version: &manifest.Version{Segments: []*segment.Reader{reader}}}, readerMemory: &readerMemory{cursors: make([]*segment.Cursor, 1)}}
		plan := planRollups(w)
		r.prefetch(refs, month.StartMs, month.EndMs-1, &plan)
		for _, length := range asked {
			bytes += length
		}
		return bytes
	}
	const blocksMin = seriesCount * 200 << 10
	const pagesMax = seriesCount * 3 * (16<<10 + 2*vfs.BlockBytes)
	with, without := open(1, true), open(2, false)
	byDay := func(a scan.Aggregate, recorded bool) *scan.Windows {
		return &scan.Windows{WidthMs: segment.DayMs, Aggregates: a, RecordedDigests: recorded}
	}
	for _, c := range []struct {
		what    string
		reader  *segment.Reader
		windows *scan.Windows
		blocks  bool
	}{
		{"samples", with, nil, true},
		{"sums", with, byDay(scan.AggregateSum, false), false},
		{"last values by hour", with, &scan.Windows{WidthMs: segment.HourMs, Aggregates: scan.AggregateLast}, false},
		{"recorded digests", with, byDay(scan.AggregateDigest, true), false},
		{"digests of samples", with, byDay(scan.AggregateDigest, false), true},
		{"digests that are not there", without, byDay(scan.AggregateDigest, true), true},
		{"sums that are not there", without, byDay(scan.AggregateSum, false), true},
	} {
		switch bytes := prefetched(c.reader, c.windows); {
		case c.blocks && bytes < blocksMin:
			t.Errorf("%s: %d bytes were asked for, without the blocks", c.what, bytes)
		case !c.blocks && (bytes > pagesMax || hints < 2*seriesCount):
			t.Errorf("%s: %d bytes were asked for by %d hints, more or less than some pages", c.what, bytes, hints)
		}
	}
}
