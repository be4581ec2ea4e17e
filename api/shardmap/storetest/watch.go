package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testWatch(t *testing.T, b Backend) {
	ctx := contextOf(t)
	writer, reader := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	watching, stop := context.WithCancel(ctx)
	views := reader.Watch(watching)
	await(t, views, "nothing", func(v shardmap.View) bool { return v.Err == nil && v.Map == nil })
	must(t, writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	await(t, views, "epoch 1", hasEpoch(1))
	epochs := uint64(1)
	for ; epochs < 30; epochs++ { // nobody reads: only the newest waits
		must(t, writer.CompareAndSwap(ctx, epochs, Map(b.Cluster(), epochs+1)))
	}
	seen := uint64(1)
	await(t, views, "the newest epoch", func(v shardmap.View) bool {
		if v.Err != nil || v.Map.Epoch < seen {
			t.Fatalf("epoch %d after %d, error %v", v.Map.Epoch, seen, v.Err)
		}
		seen = v.Map.Epoch
		return seen == epochs
	})
	await(t, reader.Watch(ctx), "the newest epoch at once", hasEpoch(epochs))
	stop()
	awaitEnd(t, views)
}

func testWatchAfterCut(t *testing.T, b Backend) {
	ctx := contextOf(t)
	writer, reader := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	must(t, writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	views := reader.Watch(ctx)
	await(t, views, "epoch 1", hasEpoch(1))
	b.SetReachable(reader, false)
	must(t, writer.SetDesired(ctx, "b", shardmap.Draining))
	must(t, writer.SetDesired(ctx, "b", ""))
	for epoch := uint64(1); epoch < 5; epoch++ {
		must(t, writer.CompareAndSwap(ctx, epoch, Map(b.Cluster(), epoch+1)))
	}
	b.Compact(t)
	b.Drop(reader) // and it goes on where it was, which is forgotten
	b.SetReachable(reader, true)
	view := await(t, views, "what it missed", hasEpoch(5))
	if len(view.Desired) != 0 {
		t.Fatalf("desired is %v", view.Desired)
	}
}

func testUnreachable(t *testing.T, b Backend) {
	ctx := contextOf(t)
	writer, cut := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	must(t, writer.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)))
	views := cut.Watch(ctx)
	await(t, views, "epoch 1", hasEpoch(1))
	b.SetReachable(cut, false)
	for _, err := range callAll(ctx, cut, b.Cluster()) {
		mustBe(t, err, shardmap.ErrUnavailable)
	}
	view := await(t, views, "trouble", hasError(shardmap.ErrUnavailable))
	if view.Map == nil || view.Map.Epoch != 1 {
		t.Fatalf("the last good map is %+v", view.Map)
	}
	must(t, writer.CompareAndSwap(ctx, 1, Map(b.Cluster(), 2)))
	b.SetReachable(cut, true)
	await(t, views, "epoch 2", hasEpoch(2))
	eventually(t, "load", func() error { _, err := cut.Load(ctx); return err })

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := cut.Load(ended)
	mustBe(t, err, context.Canceled)
}

// callAll makes one call of each kind, side by side.
func callAll(ctx context.Context, store shardmap.Store, cluster string) map[string]error {
	calls := map[string]func() error{
		"load":     func() error { _, err := store.Load(ctx); return err },
		"swap":     func() error { return store.CompareAndSwap(ctx, 1, Map(cluster, 2)) },
		"desired":  func() error { return store.SetDesired(ctx, "a", shardmap.Draining) },
		"manager":  func() error { return store.SetManager(ctx, "TickMeshCluster/lab/demo") },
		"database": func() error { return store.SetDatabase(ctx, "metrics", shardmap.DatabaseCreated) },
		"retire":   func() error { return store.Retire(ctx, "a", Hex(1)) },
		"register": func() error { _, err := store.Register(ctx, node("a", 1)); return err },
		"campaign": func() error { _, err := store.Campaign(ctx, shardmap.ElectionPlacement, "cut"); return err },
	}
	type outcome struct {
		name string
		err  error
	}
	done := make(chan outcome)
	for name, call := range calls {
		go func() { done <- outcome{name, call()} }()
	}
	errs := map[string]error{}
	for range calls {
		o := <-done
		errs[o.name] = o.err
	}
	return errs
}

func testDesired(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	must(t, store.SetDesired(ctx, "a", shardmap.Draining))
	must(t, store.SetDesired(ctx, "b", shardmap.Gone))
	await(t, views, "what is desired", func(v shardmap.View) bool {
		return len(v.Desired) == 2 && v.Desired["a"] == shardmap.Draining && v.Desired["b"] == shardmap.Gone
	})
	must(t, store.SetDesired(ctx, "a", ""))
	await(t, views, "one forgotten", func(v shardmap.View) bool { return len(v.Desired) == 1 })
	mustBe(t, store.SetDesired(ctx, "a", "lost"), shardmap.ErrNode)
	mustBe(t, store.SetDesired(ctx, "a/b", shardmap.Active), shardmap.ErrNode)
}

func testManager(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	managedBy := func(manager string) func(shardmap.View) bool {
		return func(v shardmap.View) bool { return v.Manager == manager }
	}
	const manager = "TickMeshCluster/lab/demo"
	must(t, store.SetManager(ctx, manager))
	await(t, views, "its manager", managedBy(manager))
	view, err := store.Load(ctx)
	must(t, err)
	if view.Manager != manager {
		t.Fatalf("loaded %q", view.Manager)
	}
	must(t, store.SetManager(ctx, ""))
	await(t, views, "no manager", managedBy(""))
	mustBe(t, store.SetManager(ctx, "two words"), shardmap.ErrManager)
	mustBe(t, store.SetManager(ctx, strings.Repeat("m", 1000)), shardmap.ErrManager)
}

func testDatabases(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	const odd = "wetter süd: 50 %"
	must(t, store.SetDatabase(ctx, "metrics", shardmap.DatabaseCreated))
	must(t, store.SetDatabase(ctx, odd, shardmap.DatabaseDropped))
	await(t, views, "both", func(v shardmap.View) bool {
		return len(v.Databases) == 2 && v.Databases["metrics"] == shardmap.DatabaseCreated && v.Databases[odd] == shardmap.DatabaseDropped
	})
	must(t, store.SetDatabase(ctx, odd, shardmap.DatabaseCreated))
	await(t, views, "another mark", func(v shardmap.View) bool { return v.Databases[odd] == shardmap.DatabaseCreated })
	must(t, store.SetDatabase(ctx, "metrics", ""))
	must(t, store.SetDatabase(ctx, "never", ""))
	await(t, views, "one forgotten", func(v shardmap.View) bool { return len(v.Databases) == 1 })
	view, err := store.Load(ctx)
	must(t, err)
	if len(view.Databases) != 1 || view.Databases[odd] != shardmap.DatabaseCreated {
		t.Fatalf("loaded %v", view.Databases)
	}
	for _, name := range []string{"", "a/b", "a\nb", strings.Repeat("x", 129)} {
		mustBe(t, store.SetDatabase(ctx, name, shardmap.DatabaseCreated), shardmap.ErrDatabase)
	}
	mustBe(t, store.SetDatabase(ctx, "a", "gone"), shardmap.ErrDatabase)
}

func testClose(t *testing.T, b Backend) {
	ctx := contextOf(t)
	other, store := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	views := store.Watch(ctx)
	entry, err := store.Register(ctx, node("a", 1))
	must(t, err)
	elected, err := store.Campaign(ctx, shardmap.ElectionPlacement, "one")
	must(t, err)
	others := other.Watch(ctx)
	await(t, others, "the node", func(v shardmap.View) bool { return len(v.Nodes) == 1 })
	must(t, store.Close())
	must(t, store.Close())
	awaitEnd(t, views)
	awaitClosed(t, entry.Lost(), "the registration ends")
	awaitClosed(t, elected.Lost(), "the leadership ends")
	await(t, others, "no node", func(v shardmap.View) bool { return len(v.Nodes) == 0 })
	_, err = store.Load(ctx)
	mustBe(t, err, shardmap.ErrClosed)
	mustBe(t, store.CompareAndSwap(ctx, 0, Map(b.Cluster(), 1)), shardmap.ErrClosed)
	awaitEnd(t, store.Watch(ctx))
	_, err = other.Campaign(ctx, shardmap.ElectionPlacement, "two")
	must(t, err)
}
