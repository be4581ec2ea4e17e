package sim

import (
	"testing"
)

// What moves cost writes, in the time of the world.
func TestTimeOfMoves(t *testing.T) {
	for _, syncMs := range []int{0, 5, 20} {
		o := Options{Seed: 1, Nodes: 3, Shards: 16, Replication: 2, Always: true, Routers: 2, Clients: 20, SyncMs: syncMs, Timed: true}
		timing, err := TimeMoves(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("syncs of %d ms\nsteady %v\ngrew   %v\nshrank %v", syncMs, &timing.Steady, &timing.Grew, &timing.Shrank)
	}
}
