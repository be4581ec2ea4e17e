package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestExportChangesNothing looks at what an export leaves behind: neither page log, hot
// pages nor segments are other ones, and its files go with it.
func TestExportChangesNothing(t *testing.T) {
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	rng := rand.New(rand.NewPCG(5, 5))
	n.hosts[0] = true
	for range 300 {
		logs[0].grow(rng)
	}
	n.apply(0, 300)
	files := func() []string {
		names, err := n.fs.List("data/segments")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	state := func() string {
		count, bytes := n.e.Generations()
		generation, offset := n.e.pages.End()
		return fmt.Sprint(count, bytes, generation, offset, n.e.Stats().Flushes, len(n.e.files.Present().Segments), n.e.ShardStats(0))
	}
	before, named := state(), files()
	x, err := n.e.ExportShard(0)
	if err != nil {
		t.Fatal(err)
	}
	if x.Samples == 0 || x.Index != 300 {
		t.Fatalf("%d samples of entry %d", x.Samples, x.Index)
	}
	if got := state(); got != before {
		t.Errorf("with an export %s, without %s", got, before)
	}
	if now := files(); len(now) <= len(named) {
		t.Fatalf("no scratch files: %q", now)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if now := files(); !slices.Equal(now, named) {
		t.Errorf("files %q are left, %q were there", now, named)
	}
	if _, err := n.e.ExportShard(0); err != nil { // never closed: the power goes
		t.Fatal(err)
	}
	n.crash(rng)
	for _, name := range files() {
		if strings.Contains(name, "export") {
			t.Errorf("%s is there after a start", name)
		}
	}
	n.check("after a crash")
}

// TestExportGoesAroundDamage damages pages: an export then has what a flush can read.
func TestExportGoesAroundDamage(t *testing.T) {
	logs := newLabLogs()
	flushed := 0
	for seed := range uint64(storagetest.Seeds(8)) {
		n := newLabNode(t, logs)
		n.hosts[0] = true
		rng := rand.New(rand.NewPCG(seed, 6))
		for range 100 {
			logs[0].write(rng)
		}
		n.apply(0, 1<<20)
		if err := n.e.Checkpoint(Checkpoint{Position: uint64(len(n.written)), Applied: n.e.AppliedIndexes(), SealAll: true}); err != nil {
			t.Fatal(err)
		}
		names, err := n.fs.List("data/pages")
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		file, err := n.fs.OpenReadWrite("data/pages/" + names[0])
		if err != nil {
			t.Fatal(err)
		}
		size, err := file.Size()
		if err != nil {
			t.Fatal(err)
		}
		at := size/16 + rng.Int64N(size/16) // a place with pages, behind the header
		var b [1]byte
		if _, err := file.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 << rng.IntN(8)
		if _, err := file.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		x, err := n.e.ExportShard(0)
		if err != nil {
			t.Fatal(err)
		}
		s := n.e.Stats()
		if s.Flushes > 0 {
			flushed++
			if s.Corruptions == 0 {
				t.Error("flushed though nothing was damaged")
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		n.end()
	}
	if flushed == 0 {
		t.Error("no seed has damaged a page")
	}
}

// TestExportOfManyPartitions spreads samples over more partitions than are written at
// once, at any width, in order and not.
func TestExportOfManyPartitions(t *testing.T) {
	for _, c := range []struct{ count, stepMs int64 }{
		{3, 3600_000}, {2 * flush.PartitionsAtOnce, 2 * 3600_000}, {2 * flush.PartitionsAtOnce, 31 * 24 * 3600_000},
	} {
		from, to := spillEngine(t), spillEngine(t)
		rng := rand.New(rand.NewPCG(uint64(c.stepMs), 1))
		want := map[int64]float64{}
		key := series.AppendKey(nil, nil, []byte("m"), nil)
		for i := range 4 * c.count {
			timeMs := 1_400_000_000_000 + rng.Int64N(c.count)*c.stepMs
			var batch series.BatchEncoder
			batch.Append(batch.Define(key), timeMs, i, 0)
			want[timeMs] = float64(i)
			encoded := batch.AppendTo(nil)
			body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(encoded)), encoded...)
			if err := from.Apply(0, &entry.Entry{Kind: entry.Samples, Index: uint64(i + 1), Body: body}); err != nil {
				t.Fatal(err)
			}
			if i == c.count {
				if err := from.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		flushes := from.Stats().Flushes
		x, err := from.ExportShard(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.InstallShard(context.Background(), 0, 0, x.OpenAt(0)); err != nil {
			t.Fatal(err)
		}
		if from.Stats().Flushes != flushes {
			t.Error("the export has flushed")
		}
		got := map[int64]float64{}
		err = to.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax,
		}, func(_ int, chunk *scan.Chunk) error {
			for i, at := range chunk.Times {
				got[at] = chunk.Values[i]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d partitions of %d ms: got %d samples, want %d", c.count, c.stepMs, len(got), len(want))
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*Engine{from, to} {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func spillEngine(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "data", Shards: 1, ExtentBytes: extentBytesSmall, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
