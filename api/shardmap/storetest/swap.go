package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testSwap(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	view, err := one.Load(ctx)
	must(t, err)
	if view.Map != nil {
		t.Fatalf("an empty store has the map %+v", view.Map)
	}
	mustBe(t, one.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)), shardmap.ErrConflict)
	must(t, one.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	mustBe(t, two.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)), shardmap.ErrConflict)
	must(t, two.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)))
	mustBe(t, two.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)), shardmap.ErrConflict)
	must(t, one.CompareAndSwap(ctx, 2, Map(b.Cluster(), 9)))
	view, err = two.Load(ctx)
	must(t, err)
	if !view.Map.Equal(Map(b.Cluster(), 9)) {
		t.Fatalf("the map is %+v", view.Map)
	}
}

func testSwapRefused(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	must(t, store.CompareAndSwap(ctx, 0, Map(b.Cluster(), 5)))
	invalid := Map(b.Cluster(), 6)
	invalid.Rows = nil
	mustBe(t, store.CompareAndSwap(ctx, 5, invalid), shardmap.ErrMap)
	mustBe(t, store.CompareAndSwap(ctx, 5, Map(b.Cluster(), 5)), shardmap.ErrMap)
	other := Map(b.Cluster(), 6)
	other.ID = Hex(78)
	mustBe(t, b.Open(t, shardmap.Seen{}).CompareAndSwap(ctx, 5, other), shardmap.ErrWrongCluster)
	mustBe(t, store.CompareAndSwap(ctx, 5, other), shardmap.ErrWrongCluster)
	newer := b.Open(t, shardmap.Seen{ClusterID: Hex(77), Epoch: 9})
	mustBe(t, newer.CompareAndSwap(ctx, 5, Map(b.Cluster(), 6)), shardmap.ErrConflict)
	_, err := newer.Load(ctx)
	mustBe(t, err, shardmap.ErrRolledBack)
	stranger := b.Open(t, shardmap.Seen{ClusterID: Hex(78), Epoch: 1})
	_, err = stranger.Load(ctx)
	mustBe(t, err, shardmap.ErrWrongCluster)
	await(t, stranger.Watch(ctx), "the wrong cluster", hasError(shardmap.ErrWrongCluster))
}

// testSwapRace has several processes raise the epoch by one; none may be lost.
func testSwapRace(t *testing.T, b Backend) {
	const processes, swaps = 4, 8
	ctx := contextOf(t)
	must(t, b.Open(t, shardmap.Seen{}).CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	var all sync.WaitGroup
	var won atomic.Int64
	for range processes {
		store := b.Open(t, shardmap.Seen{})
		all.Go(func() {
			for done := 0; done < swaps && !t.Failed(); {
				view, err := store.Load(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				switch err = store.CompareAndSwap(ctx, view.Map.Epoch, Map(b.Cluster(), view.Map.Epoch+1)); {
				case err == nil:
					done++
					won.Add(1)
				case !errors.Is(err, shardmap.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	view, err := b.Open(t, shardmap.Seen{}).Load(ctx)
	must(t, err)
	if want := uint64(won.Load()) + 1; view.Map.Epoch != want {
		t.Fatalf("epoch %d after %d swaps", view.Map.Epoch, want-1)
	}
}
