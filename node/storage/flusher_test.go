package storage

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestFlushOfOneSeries writes one series from the present and from a past that moves,
// out of order and more than once, so much that it is written in several stretches,
// and compares what the segments have with a map.
func TestFlushOfOneSeries(t *testing.T) {
	e, err := Open(Options{
		FS: vfs.NewMemFS(), Dir: "data", Shards: 1, SyncLog: func() error { return nil },
		ExtentBytes: 1 << 20, GenerationBytesMax: 4 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	key := series.AppendKey(nil, nil, []byte("m"), nil)
	random := rand.New(rand.NewPCG(1, 2))
	want := map[int64]float64{}
	const batches, inBatch, startMs = 100, 1_000, 1_700_000_000_000
	for index := uint64(1); index <= batches; index++ {
		var b series.BatchEncoder
		id := b.Define(key)
		for i := range inBatch {
			n := int64(index)*inBatch + int64(i)
			timeMs := startMs + n*1000
			switch random.IntN(4) {
			case 0:
				timeMs -= random.Int64N(40_000_000)
			case 1:
				timeMs = startMs - n*500
			}
			b.Append(id, timeMs, n, 0)
			want[timeMs] = float64(n)
		}
		body := samplesBody(b.AppendTo(nil))
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Checkpoint(Checkpoint{Applied: []uint64{batches}, SealAll: true}); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, bytes := e.Generations(); bytes != 0 {
		t.Fatalf("%d bytes are not flushed", bytes)
	}
	times := make([]int64, 0, len(want))
	for timeMs := range want {
		times = append(times, timeMs)
	}
	slices.Sort(times)
	at := 0
	err = e.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax,
	}, func(_ int, c *scan.Chunk) error {
		for i, timeMs := range c.Times {
			if at == len(times) || timeMs != times[at] || c.Values[i] != want[timeMs] {
				t.Fatalf("sample %d is %d: %v", at, timeMs, c.Values[i])
			}
			at++
		}
		return nil
	})
	if err != nil || at != len(times) {
		t.Fatalf("%d of %d samples, %v", at, len(times), err)
	}
}
