package storage

import (
	"context"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestOrderOfSegmentsAfterOpen opens a folder whose manifest names a newer segment
// before an older one, as it does after a merge that went on while the newer one
// was flushed. The order of writing is that of the sequences.
func TestOrderOfSegmentsAfterOpen(t *testing.T) {
	fs := vfs.NewMemFS()
	options := Options{FS: fs, Dir: "data", Shards: 1, ExtentBytes: extentBytesSmall, SyncLog: func() error { return nil }}
	open := func() *Engine {
		e, err := Open(options)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	key := series.AppendKey(nil, nil, []byte("m"), nil)
	for index := uint64(1); index <= 2; index++ {
		var b series.BatchEncoder
		b.Append(b.Define(key), 1_700_000_000_000, int64(index), 0)
		batch := b.AppendTo(nil)
		body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...)
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: body}); err != nil {
			t.Fatal(err)
		}
		if err := e.Checkpoint(Checkpoint{Applied: []uint64{index}, SealAll: true}); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Read(fs, "data")
	if err != nil || len(m.Segments) != 2 {
		t.Fatalf("%v, %+v", err, m)
	}
	slices.Reverse(m.Segments)
	if err := manifest.Write(fs, "data", m); err != nil {
		t.Fatal(err)
	}
	e = open()
	defer e.Close()
	var got []float64
	err = e.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax,
	}, func(_ int, c *scan.Chunk) error {
		got = append(got, c.Values...)
		return nil
	})
	if err != nil || !slices.Equal(got, []float64{2}) {
		t.Fatalf("%v, %v; want the later write, 2", got, err)
	}
}
