package storage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// What the index and the hot pages hold stays within its bound whatever is written, by the
// collector's own count, and no sample is lost by it.
func TestSeriesStayWithinMemory(t *testing.T) {
	const (
		shards, seriesCount, rounds = 8, 10_000, 24
		bytesMax                    = 2 << 20
		slack                       = seriesCount / shards * codec.PageBytesMax // what one entry adds before pages are sealed
	)
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "data", Shards: shards, ExtentBytes: extentBytesSmall, SeriesBytesMax: bytesMax, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(1, 1))
	want := map[string]float64{} // sums
	indexes := make([]uint64, shards)
	most := int64(0)
	for round := range rounds {
		for shard := range shards {
			var batch series.BatchEncoder
			for i := shard; i < seriesCount; i += shards {
				value := rng.Int64N(1 << 40) // does not compress
				key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("i"), Value: fmt.Append(nil, i)}})
				want[string(key)] += float64(value)
				batch.Append(batch.Define(key), int64(round)*1000, value, 0)
			}
			indexes[shard]++
			if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Shard: uint16(shard), Term: 1, Index: indexes[shard], Body: samplesBody(batch.AppendTo(nil))}); err != nil {
				t.Fatal(err)
			}
			most = max(most, e.SeriesBytes())
			e.KeepWithinMemory()
		}
	}
	if most > bytesMax+slack {
		t.Errorf("%d bytes were held, %d are allowed", most, bytesMax)
	}
	stats := e.Stats()
	if stats.MemoryReliefs == 0 || stats.MemoryReliefs > shards*rounds/2 {
		t.Errorf("pages were sealed %d times for %d entries", stats.MemoryReliefs, shards*rounds)
	}
	if most := e.SeriesMax(); most < seriesCount || most > bytesMax/32 {
		t.Errorf("there is room for %d series", most)
	}
	got := map[string]float64{}
	err = e.Scan(context.Background(), &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: 0, ToMs: math.MaxInt32}, func(_ int, c *scan.Chunk) error {
		for _, v := range c.Values {
			got[string(c.Key)] += v
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d series are not what was written to %d", len(got), len(want))
	}
}

// More series than the bound leaves room for make no storm of seals: what they take is not pages.
func TestMoreSeriesThanMemoryHasRoomFor(t *testing.T) {
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "data", Shards: 1, ExtentBytes: extentBytesSmall, SeriesBytesMax: 256 << 10, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const entries, inEntry = 400, 50
	for n := range entries {
		var batch series.BatchEncoder
		for i := range inEntry {
			batch.Append(batch.Define(series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("i"), Value: fmt.Append(nil, n*inEntry+i)}})), int64(n), 1, 0)
		}
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: uint64(n + 1), Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			t.Fatal(err)
		}
	}
	e.KeepWithinMemory()
	if most, now := e.SeriesMax(), e.SeriesCount(); most > now {
		t.Errorf("%d series are there, and room for %d", now, most)
	}
	if n := e.Stats().MemoryReliefs; n == 0 || n >= entries/2 {
		t.Errorf("pages were sealed %d times for %d entries", n, entries)
	}
}

// TestNoMemoryThroughCrashes has no memory for pages at all: every entry seals what others have
// left, with checkpoints, flushes and power cuts at any moment.
func TestNoMemoryThroughCrashes(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			logs := newLabLogs()
			n := &labNode{t: t, logs: logs, fs: vfs.NewMemFS(), memory: 1}
			n.open()
			n.hosts = [labShards]bool{true, true, true}
			n.liveThroughCrashes(rng, 100)
			if n.e.Stats().MemoryReliefs == 0 {
				t.Error("no page was sealed for want of memory")
			}
			n.end()
		})
	}
}
