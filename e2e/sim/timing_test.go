package sim

import (
	"fmt"
	"testing"
)

// While shards move and are handed over, no router waits before it tries again, and writes take about as
// long as otherwise, whatever the disk needs for a sync. All times are the world's. A shard of one copy
// has two voters for a part of its move, so that its writes take as long as with two copies.
func TestTimeOfMoves(t *testing.T) {
	const slowerMax = 1.5 // P99, times that of the steady cluster
	for _, replication := range []int{1, 2} {
		for _, syncMs := range []int{0, 5, 20} {
			t.Run(fmt.Sprintf("copies%d-sync%dms", replication, syncMs), func(t *testing.T) {
				t.Parallel()
				o := Options{Seed: *startFlag, Nodes: 3, Shards: 16, Replication: replication, Always: true, Routers: 2, Clients: 20, SyncMs: syncMs, Timed: true}
				timing, err := TimeMoves(o)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("\nsteady %v\ngrew   %v\nshrank %v", &timing.Steady, &timing.Grew, &timing.Shrank)
				for _, moved := range []*Timing{&timing.Grew, &timing.Shrank} {
					if moved.Named == 0 {
						t.Error("no write met a shard that was handed over")
					}
					if moved.Failed > 0 {
						t.Errorf("%d writes had no answer in time", moved.Failed)
					}
					if moved.Refused > 0 || moved.SleptUs > 0 {
						t.Errorf("%d attempts were refused without the name of a leader; routers slept %d µs", moved.Refused, moved.SleptUs)
					}
					most := slowerMax * float64(timing.Steady.Quantile(0.99))
					if replication == 1 {
						most += float64(4 * syncMs * 1000)
					}
					if p99 := moved.Quantile(0.99); float64(p99) > most {
						t.Errorf("P99 %d µs, most is %.0f µs", p99, most)
					}
				}
			})
		}
	}
}
