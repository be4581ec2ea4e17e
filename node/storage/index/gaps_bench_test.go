package index

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// BenchmarkForgottenForGood makes a million series, forgets all but a thousand and writes manifests until nothing changes any
// more, with keys kept and dropped: what is on disk then, what is in memory, and how long a start takes.
func BenchmarkForgottenForGood(b *testing.B) {
	for _, drops := range []bool{false, true} {
		b.Run(fmt.Sprintf("drops=%v", drops), func(b *testing.B) {
			for range b.N {
				forgetForGood(b, drops)
			}
		})
	}
}

func forgetForGood(b *testing.B, drops bool) {
	const count, stay, shards = 1_000_000, 1000, 128
	dir := b.TempDir()
	open := func(state State) *Index {
		b.Helper()
		x, err := Open(Options{FS: vfs.OS(), Dir: dir, State: state, Applied: make([]uint64, shards)})
		if err != nil {
			b.Fatal(err)
		}
		if drops {
			x.LetDropKeys()
		}
		return x
	}
	x := open(State{})
	gone := make([][]uint32, shards)
	for i := range uint32(count) {
		s := modelSeries{metric: "kube_pod_container_info", tags: map[string]string{"pod": fmt.Sprintf("api-%08x", i), "namespace": "shop", "node": fmt.Sprintf("n%d", i%50)}}
		shard, id := uint16(i%shards), i/shards
		if _, err := x.Create(shard, series.ID(id), s.key(), 1); err != nil {
			b.Fatal(err)
		}
		if i >= stay {
			gone[shard] = append(gone[shard], id)
		}
	}
	applied := make([]uint64, shards)
	checkpoint := func() (state State) {
		b.Helper()
		x.ClearEmptied(x.EmptiedNow())
		state, err := x.Sync()
		if err == nil {
			x.Published(state)
			err = x.FinalizeForgotten(applied)
		}
		if err != nil {
			b.Fatal(err)
		}
		return state
	}
	checkpoint()
	for shard, ids := range gone {
		if applied[shard] = 1; len(ids) > 0 {
			if err := x.Forget(uint16(shard), ids, 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	var state State
	for range 14 {
		state = checkpoint()
		time.Sleep(100 * time.Millisecond) // for the worker, which makes parts again
	}
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
	total, keys := int64(0), int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		var stat syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, e.Name()), &stat); err != nil {
			b.Fatal(err)
		}
		if total += stat.Blocks * 512; e.Name() == keyFileName {
			keys = stat.Blocks * 512
		}
	}
	begin := time.Now()
	x = open(state)
	b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, "open-ms")
	s := x.Stats()
	b.ReportMetric(float64(total)/count, "disk-B/series")
	b.ReportMetric(float64(keys)/count, "keys-B/series")
	b.ReportMetric(float64(s.OffsetBytes+s.ShardBytes+s.TableBytes+s.PartBytes+s.ActivityBytes+s.ForgottenBytes)/count, "memory-B/series")
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
}
