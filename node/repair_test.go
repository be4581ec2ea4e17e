package node

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// TestSuspectsOverMonths suspects a range that lies in two months, as one between days
// with samples may: it is mended month by month, and does not wait for ever.
func TestSuspectsOverMonths(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "d"}
	c, want := copyCluster(t, names, roles2())
	n := c.reach("", "a")
	fromMs, toMs := time.Date(2023, 10, 30, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2023, 11, 18, 0, 0, 0, 0, time.UTC).UnixMilli()-1
	for shard := range uint16(testShards) {
		if err := n.repair.Suspect(shard, fromMs, toMs); err != nil {
			t.Fatal(err)
		}
	}
	c.await("both months of all shards to be mended", func() bool {
		return n.repair.Figures().Repairs >= 2*testShards && n.repair.Figures().RepairsPending == 0
	})
	c.mustHave(want)
	c.equalCopies("a", "b")
}

// TestRangeIsGivenWhenItIsApplied asks a copy for entries that come later.
func TestRangeIsGivenWhenItIsApplied(t *testing.T) {
	t.Parallel()
	c, _ := copyCluster(t, []string{"a", "b", "c"}, roles2())
	n, key := c.reach("", "b"), testKey(1)
	shard := key.Shard(testShards)
	given, next := make(chan error, 1), n.Applied(shard)+1
	go func() {
		given <- n.repair.GiveRange(context.Background(), shard, oldMs, oldMs, next, new(bytes.Buffer))
	}()
	c.await("somebody to wait", func() bool { return n.loop.applied[shard].waiters.Load() > 0 })
	c.write(key, oldMs, 1, series.BatchID{})
	if err := <-given; err != nil {
		t.Error(err)
	}
}
