package node

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// BenchmarkWritesBesideStates writes into one shard while another one's configuration
// changes all the time, on a disk whose syncs take 5 ms.
func BenchmarkWritesBesideStates(b *testing.B) {
	slow := func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}
	n, err := Open(testOptions(vfs.Faults(vfs.NewMemFS(), slow), SyncInterval))
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	self := n.loop.machine.Self()
	both := []shardmap.Member{self, {Node: "far", Incarnation: self.Incarnation, RaftID: 2, Role: shardmap.Learner}}
	var stop atomic.Bool
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for !stop.Load() {
			_ = n.loop.queue.do(func() { // refused while the one before is under way
				if status, err := n.loop.machine.Host().Status(0); err == nil && len(status.Configuration.Members) == 1 {
					_ = n.loop.machine.Host().Change(0, both)
				} else {
					_ = n.loop.machine.Host().Change(0, both[:1])
				}
			})
			time.Sleep(time.Millisecond)
		}
	}()
	frame := frameOf(1)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := n.Write(context.Background(), frame); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	stop.Store(true)
	<-changed
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "P99-µs")
}

// frameOf makes a frame of one sample for a shard.
func frameOf(shard uint16) *series.Frame {
	for i := 0; ; i++ {
		if key := testKey(i); key.Shard(testShards) == shard {
			var e series.BatchEncoder
			e.Append(e.Define(key), 1_700_000_000_000, 1, 0)
			return &series.Frame{Parts: []series.Part{{Shard: shard, Batch: e.AppendTo(nil)}}, Points: 1}
		}
	}
}
