package storetest

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testRestart(t *testing.T, b Backend) {
	ctx := contextOf(t)
	writer, reader := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	must(t, writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	must(t, writer.SetDesired(ctx, "a", shardmap.Draining))
	views := reader.Watch(ctx)
	await(t, views, "epoch 1", hasEpoch(1))
	b.Restart(t)
	eventually(t, "swap", func() error { return writer.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)) })
	view := await(t, views, "epoch 2", hasEpoch(2))
	if view.Desired["a"] != shardmap.Draining {
		t.Fatalf("desired is %v", view.Desired)
	}
}

// testRolledBack sets the store back to an old state: everyone who has seen newer
// ones refuses it, until a rescued map with a greater epoch is there.
func testRolledBack(t *testing.T, b Backend) {
	ctx := contextOf(t)
	writer, reader := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	must(t, writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	restore := b.Snapshot(t)
	views := reader.Watch(ctx)
	eventually(t, "swap", func() error { return writer.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)) })
	must(t, writer.CompareAndSwap(ctx, 2, Map(b.Cluster(), 3)))
	await(t, views, "epoch 3", hasEpoch(3))
	restore(t)
	view := await(t, views, "the rollback", hasError(shardmap.ErrRolledBack))
	if view.Map == nil || view.Map.Epoch != 3 {
		t.Fatalf("the last good map is %+v", view.Map)
	}
	refuses(t, writer)
	restarted := b.Open(t, shardmap.Seen{ClusterID: Hex(77), Epoch: 3})
	refuses(t, restarted)

	rescuer := b.Open(t, shardmap.Seen{})
	var old shardmap.View
	eventually(t, "load", func() (err error) { old, err = rescuer.Load(ctx); return err })
	if old.Map.Epoch != 1 {
		t.Fatalf("the store has epoch %d", old.Map.Epoch)
	}
	must(t, rescuer.CompareAndSwap(ctx, 1, Map(b.Cluster(), 4)))
	await(t, views, "the rescued map", hasEpoch(4))
	_, err := restarted.Load(ctx)
	must(t, err)
}

// refuses checks that a store says that it was rolled back, and changes nothing.
func refuses(t *testing.T, store shardmap.Store) {
	t.Helper()
	ctx := contextOf(t)
	eventually(t, "load", func() error {
		_, err := store.Load(ctx)
		if err == nil {
			t.Fatal("an old map is taken")
		}
		if isRollback := hasError(shardmap.ErrRolledBack)(shardmap.View{Err: err}); isRollback {
			return nil
		}
		return err
	})
}

// testLost empties the store.
func testLost(t *testing.T, b Backend) {
	ctx := contextOf(t)
	restore := b.Snapshot(t)
	writer := b.Open(t, shardmap.Seen{})
	eventually(t, "swap", func() error { return writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)) })
	views := writer.Watch(ctx)
	await(t, views, "epoch 1", hasEpoch(1))
	restore(t)
	view := await(t, views, "the loss", hasError(shardmap.ErrRolledBack))
	if view.Map == nil || view.Map.Epoch != 1 {
		t.Fatalf("the last good map is %+v", view.Map)
	}
	rescuer := b.Open(t, shardmap.Seen{})
	eventually(t, "swap", func() error { return rescuer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 2)) })
	await(t, views, "the rescued map", hasEpoch(2))
}
