package agent

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/commit"
)

// fakeNode takes maps, or fails to.
type fakeNode struct {
	failing bool
	unfit   bool
	adopted []uint64 // epochs
}

func (n *fakeNode) AdoptMap(m *shardmap.Map) error {
	if n.unfit {
		return node.ErrShards
	}
	if n.failing {
		return errors.New("the disk is full")
	}
	n.adopted = append(n.adopted, m.Epoch)
	return nil
}

func (*fakeNode) Unpublished(context.Context) []commit.GroupConfig { return nil }
func (*fakeNode) PublishSignal() <-chan struct{}                   { return nil }

func testMap(epoch uint64) *shardmap.Map {
	incarnation := strings.Repeat("ab", 16)
	return &shardmap.Map{
		Format: shardmap.Format, Cluster: "c", ID: incarnation, Epoch: epoch, Settings: shardmap.Settings{Shards: 1, Replication: 1},
		Rows: []shardmap.Row{{Version: 1, RaftIDLast: 1, Era: 1, Members: []shardmap.Member{{Node: "a", Incarnation: incarnation, RaftID: 1, Role: shardmap.Full}}}},
	}
}

// started returns the agent of node a.
func started(t *testing.T, n Node, store shardmap.Store) *Agent {
	t.Helper()
	a, err := Start(t.Context(), Options{Store: store, Node: n, DataDir: t.TempDir(), Cluster: "c", Logger: slog.New(slog.DiscardHandler),
		Info: func() shardmap.NodeInfo {
			return shardmap.NodeInfo{ID: "a", Incarnation: strings.Repeat("ab", 16), RPCAddress: "a:1"}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// storeWith returns a store that has a map.
func storeWith(t *testing.T, m *shardmap.Map) *memstore.Store {
	t.Helper()
	store := memstore.NewServer().Open(shardmap.Seen{})
	if err := store.CompareAndSwap(t.Context(), 0, *m); err != nil {
		t.Fatal(err)
	}
	return store
}

// allocating returns a map in which the raft ids up to last were given, the last one to a replica
// on a node.
func allocating(epoch, last uint64, node string) *shardmap.Map {
	m := testMap(epoch)
	row := &m.Rows[0]
	row.RaftIDLast, row.Intended = last, append(row.Intended, shardmap.Member{Node: node, Incarnation: strings.Repeat("cd", 16), RaftID: last, Role: shardmap.Full})
	return m
}

// TestMapIsToldBeforeItIsAdopted sets the store back around the moment at which a node sees a map that
// gives a raft id: whenever the node goes by such a map, the store's other readers know that it has
// seen it, and so do not take the older map for the newest.
func TestMapIsToldBeforeItIsAdopted(t *testing.T) {
	ctx, server, n := t.Context(), memstore.NewServer(), &fakeNode{}
	placement := server.Open(shardmap.Seen{})
	if err := placement.CompareAndSwap(ctx, 0, *testMap(1)); err != nil {
		t.Fatal(err)
	}
	store := server.Open(shardmap.Seen{})
	a := started(t, n, store)
	if err := a.Adopt(ctx, testMap(1)); err != nil {
		t.Fatal(err)
	}
	before := server.Snapshot()
	next := allocating(2, 2, "b") // this node may lead the group that gets the replica
	if err := placement.CompareAndSwap(ctx, 1, *next); err != nil {
		t.Fatal(err)
	}
	overtaken := func() error {
		view, err := server.Open(shardmap.Seen{}).Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return view.Overtaken()
	}

	store.SetReachable(false)
	if err := a.Adopt(ctx, next); !errors.Is(err, shardmap.ErrUnavailable) || len(n.adopted) != 1 {
		t.Errorf("the store cannot be told: %v, adopted %v", err, n.adopted)
	}
	store.SetReachable(true)
	a.catchUp(ctx)
	if len(n.adopted) != 2 {
		t.Errorf("the store was told: adopted %v", n.adopted)
	}
	after := server.Snapshot()
	server.Restore(before)
	if err := overtaken(); !errors.Is(err, shardmap.ErrRolledBack) {
		t.Errorf("the store is behind a node that goes by epoch 2: %v", err)
	}

	server.Restore(after)
	if err := placement.CompareAndSwap(ctx, 2, *allocating(3, 3, "a")); err != nil {
		t.Fatal(err)
	}
	server.Restore(after) // after the node's watch has sent epoch 3
	if err := a.Adopt(ctx, allocating(3, 3, "a")); !errors.Is(err, shardmap.ErrConflict) || len(n.adopted) != 2 || a.Map().Epoch != 3 {
		t.Errorf("a map that the store does not have any more: %v, adopted %v", err, n.adopted)
	}
	if err := overtaken(); !errors.Is(err, shardmap.ErrRolledBack) {
		t.Errorf("the store is behind a node that has seen epoch 3: %v", err)
	}
	if kept, err := ReadMap(a.options.DataDir); err != nil || kept.Epoch != 2 {
		t.Errorf("kept %v, %v; want epoch 2", kept, err)
	}
}

// TestMapIsNotLost lets the node refuse a map for a while: it gets it later, without a
// newer one. An older map is refused, and the newest is there after a restart.
func TestMapIsNotLost(t *testing.T) {
	n := &fakeNode{}
	ctx := t.Context()
	a := started(t, n, storeWith(t, testMap(3)))
	if err := a.Adopt(ctx, testMap(3)); err != nil {
		t.Fatal(err)
	}
	n.failing = true
	if err := a.Adopt(ctx, testMap(4)); err == nil {
		t.Fatal("want the node's error")
	}
	a.catchUp(ctx)
	n.failing = false
	a.catchUp(ctx)
	a.catchUp(ctx)
	if err := a.Adopt(ctx, testMap(4)); err != nil {
		t.Fatal(err)
	}
	if err := a.Adopt(ctx, testMap(3)); !errors.Is(err, shardmap.ErrRolledBack) {
		t.Errorf("%v; want %v", err, shardmap.ErrRolledBack)
	}
	if len(n.adopted) != 2 || n.adopted[0] != 3 || n.adopted[1] != 4 {
		t.Errorf("adopted epochs %v, want 3 and 4", n.adopted)
	}
	if kept, err := ReadMap(a.options.DataDir); err != nil || kept == nil || kept.Epoch != 4 {
		t.Errorf("kept %v, %v; want epoch 4", kept, err)
	}
}

// TestMapsThatJumpAreRefused: a map that no change of the cluster can have led to does not
// replace the present one, neither in memory nor on disk, so that later maps still count.
func TestMapsThatJumpAreRefused(t *testing.T) {
	n, ctx := &fakeNode{}, t.Context()
	a := started(t, n, storeWith(t, testMap(3)))
	if err := a.Adopt(ctx, testMap(3)); err != nil {
		t.Fatal(err)
	}
	far := testMap(3 + 1<<40 + 1)
	last := testMap(1 << 63)
	copies := testMap(4)
	copies.Settings.Replication = 2
	shards := testMap(4)
	shards.Settings.Shards, shards.Rows = 2, append(shards.Rows, shards.Rows[0])
	other := testMap(4)
	other.ID = strings.Repeat("cd", 16)
	for name, m := range map[string]*shardmap.Map{"far": far, "last": last, "copies": copies, "shards": shards, "another cluster": other} {
		if err := a.Adopt(ctx, m); !errors.Is(err, shardmap.ErrJump) && !errors.Is(err, shardmap.ErrWrongCluster) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kept, err := ReadMap(a.options.DataDir); err != nil || kept.Epoch != 3 || a.Map().Epoch != 3 {
		t.Errorf("kept %v, %v; want epoch 3", kept, err)
	}
	// What a rescue makes, thousands of times while the node was away, is taken.
	rescued := testMap(3 + 5_000*1_000_000)
	if err := a.Adopt(ctx, rescued); err != nil {
		t.Error(err)
	}
	if err := a.Adopt(ctx, testMap(rescued.Epoch+1)); err != nil {
		t.Error(err)
	}
	if _, err := last.Encode(); !errors.Is(err, shardmap.ErrMap) {
		t.Errorf("a map after which there is no room for another is valid: %v", err)
	}
}

// TestUnfit ends a node whose data folder was made for another number of shards.
func TestUnfit(t *testing.T) {
	server := memstore.NewServer()
	store := server.Open(shardmap.Seen{})
	ctx, unfit := context.WithCancelCause(t.Context())
	a := started(t, &fakeNode{unfit: true}, store)
	a.options.Unfit = unfit
	if err := store.CompareAndSwap(ctx, 0, *testMap(1)); err != nil {
		t.Fatal(err)
	}
	a.Run(ctx)
	if cause := context.Cause(ctx); !errors.Is(cause, node.ErrShards) {
		t.Errorf("it ended because of %v", cause)
	}
}

// lateStore is a store of which Load does not answer in time.
type lateStore struct {
	shardmap.Store
	late bool
}

func (s *lateStore) Load(ctx context.Context) (shardmap.View, error) {
	if s.late {
		<-ctx.Done()
		return shardmap.View{}, ctx.Err()
	}
	return s.Store.Load(ctx)
}

// TestMapIsTriedAgain lets the store answer too late, and then the disk be full, when a map is to be adopted: the node
// has it once both are well, without a newer one, which may not come for months.
func TestMapIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, n, store := t.Context(), &fakeNode{}, &lateStore{Store: storeWith(t, allocating(2, 2, "a")), late: true}
		a := started(t, n, store)
		if err := a.Adopt(ctx, allocating(2, 2, "a")); !errors.Is(err, shardmap.ErrUnavailable) || !waits(err) {
			t.Errorf("the store answers too late: %v", err)
		}
		store.late = false
		folder := a.options.DataDir
		a.options.DataDir = filepath.Join(folder, "none")
		a.catchUp(ctx)
		if len(n.adopted) != 0 {
			t.Errorf("a map that is not kept was adopted: %v", n.adopted)
		}
		a.options.DataDir = folder
		a.catchUp(ctx)
		if len(n.adopted) != 1 || n.adopted[0] != 2 {
			t.Errorf("adopted %v", n.adopted)
		}
		if kept, err := ReadMap(folder); err != nil || kept.Epoch != 2 {
			t.Errorf("kept %v, %v", kept, err)
		}
	})
}
