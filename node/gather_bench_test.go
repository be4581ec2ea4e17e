package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// BenchmarkWriteSynced writes samples one by one from 64 goroutines on disks whose syncs take a
// given time: with SyncAlways the writes of a round grow with it, and with SyncInterval nobody
// waits for it.
func BenchmarkWriteSynced(b *testing.B) {
	const writers = 64
	for _, latency := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		for _, mode := range []SyncMode{SyncInterval, SyncAlways} {
			b.Run(fmt.Sprintf("sync=%v/%s", latency, mode), func(b *testing.B) {
				slow := func(op vfs.Op) error {
					if op.Kind == vfs.OpSync {
						time.Sleep(latency)
					}
					return nil
				}
				o := testOptions(vfs.Faults(vfs.NewMemFS(), slow), mode)
				o.LogFileBytes = 64 << 20 // else it waits for files
				n, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				defer n.Close()
				before, syncs := n.loop.stats.rounds.Load(), n.log.Stats().Syncs
				var done sync.WaitGroup
				b.ResetTimer()
				for i := range writers {
					done.Go(func() {
						frame := frameOf(uint16(i % testShards))
						for range (b.N + i) / writers {
							if _, err := n.Write(context.Background(), frame); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				done.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/float64(max(1, n.loop.stats.rounds.Load()-before)), "writes/round")
				b.ReportMetric(float64(b.N)/float64(max(1, n.log.Stats().Syncs-syncs)), "writes/sync")
			})
		}
	}
}
