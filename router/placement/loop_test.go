package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

const waitMax = time.Minute

// cluster is a store, nodes that reach what is intended at once, and loops.
type cluster struct {
	t      *testing.T
	ctx    context.Context
	server *memstore.Server
	store  *memstore.Store // of the test
	nowMs  atomic.Int64
	nodes  map[string]*memstore.Store
	before atomic.Pointer[shardmap.Map] // in whose eras nobody leads any more; nil: all groups have leaders
}

func newCluster(t *testing.T) *cluster {
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{t: t, ctx: ctx, server: memstore.NewServer(), nodes: map[string]*memstore.Store{}}
	c.store = c.server.Open(shardmap.Seen{})
	c.nowMs.Store(1_000_000)
	var groups sync.WaitGroup
	groups.Go(c.publishGroups)
	t.Cleanup(groups.Wait)
	t.Cleanup(cancel)
	return c
}

// publishGroups plays the leaders of all groups.
func (c *cluster) publishGroups() {
	store := c.server.Open(shardmap.Seen{})
	for view := range store.Watch(c.ctx) {
		if view.Map == nil {
			continue
		}
		for shard, row := range view.Map.Rows {
			next, changed := row.Published(row.Target())
			if before := c.before.Load(); !changed || before != nil && before.Rows[shard].Era == row.Era {
				continue
			}
			err := store.CompareAndSwap(c.ctx, view.Map.Epoch, view.Map.WithRow(uint16(shard), next))
			if err != nil && !errors.Is(err, shardmap.ErrConflict) && c.ctx.Err() == nil {
				c.t.Error(err)
			}
			break // the watch brings the next map
		}
	}
}

func (c *cluster) startNode(id string, number int) {
	c.nodes[id] = c.server.Open(shardmap.Seen{})
	_, err := c.nodes[id].Register(c.ctx, shardmap.NodeInfo{ID: id, Incarnation: fmt.Sprintf("%032x", number), RPCAddress: id + ":1"})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) killNode(id string) {
	c.nodes[id].SetReachable(false)
	c.server.ExpireLeases()
}

// startLoop starts a loop; ticks come when the test sends them.
func (c *cluster) startLoop(name string, change func(*Options)) (l *Loop, ticks chan time.Time, stop func()) {
	limits := shardmap.DefaultLimits()
	limits.Create = shardmap.Creation{Cluster: "test", Settings: shardmap.Settings{Shards: 16, Replication: 2}, InitialNodes: 3}
	ticks = make(chan time.Time)
	o := Options{
		Store: c.server.Open(shardmap.Seen{}), Name: name, Limits: limits, Ticks: ticks,
		Clock: func() time.Time { return time.UnixMilli(c.nowMs.Load()) },
	}
	if change != nil {
		change(&o)
	}
	l, err := New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	c.t.Cleanup(stop)
	return l, ticks, stop
}

// await waits for a view.
func (c *cluster) await(what string, wanted func(shardmap.View) bool) shardmap.View {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, waitMax)
	defer cancel()
	var last shardmap.View
	for view := range c.store.Watch(ctx) {
		if last = view; wanted(view) {
			return view
		}
	}
	c.t.Fatalf("never: %s; the last view is %+v", what, last)
	return last
}

// on reports whether a map is at rest, on exactly these nodes.
func on(nodes ...string) func(shardmap.View) bool {
	return func(v shardmap.View) bool {
		if v.Map == nil || v.Map.Moving() > 0 {
			return false
		}
		used := map[string]int{}
		for _, row := range v.Map.Rows {
			if row.Fresh || len(row.Members) != 3 {
				return false
			}
			for _, m := range row.Members {
				used[m.Node]++
			}
		}
		counts := slices.Sorted(maps.Values(used))
		return slices.Equal(slices.Sorted(maps.Keys(used)), nodes) && counts[len(counts)-1]-counts[0] <= 2
	}
}

func TestLoopPlacesNodes(t *testing.T) {
	c := newCluster(t)
	l, ticks, _ := c.startLoop("one", nil)
	c.startNode("a", 1)
	c.startNode("b", 2)
	c.startNode("c", 3)
	view := c.await("a map on three nodes", on("a", "b", "c"))
	if !shardmap.ValidIncarnation(view.Map.ID) || view.Map.Cluster != "test" {
		t.Fatalf("a map of %q, id %q", view.Map.Cluster, view.Map.ID)
	}
	if key := view.Map.Settings.ShardKey; !shardmap.ValidIncarnation(key) || key == view.Map.ID || view.Map.Format != shardmap.FormatKeyed {
		t.Fatalf("a new cluster has the shard key %q in format %d", key, view.Map.Format)
	}
	c.startNode("d", 4)
	c.await("a map on four nodes", on("a", "b", "c", "d"))
	if err := c.store.SetDesired(c.ctx, "a", shardmap.Draining); err != nil {
		t.Fatal(err)
	}
	c.await("a drained", on("b", "c", "d"))
	if err := c.store.SetDesired(c.ctx, "a", shardmap.Active); err != nil {
		t.Fatal(err)
	}
	c.await("a back", on("a", "b", "c", "d"))
	c.killNode("b")
	ticks <- time.Time{} // not yet: the node may come back
	ticks <- time.Time{} // and the one before is done
	if l.Status().Steps[shardmap.ReasonReplace] > 0 {
		t.Fatal("a node that has just died is replaced")
	}
	for l.Status().Summary.NodesDead == 0 {
		ticks <- time.Time{} // until the loop has seen the death
	}
	c.nowMs.Add(shardmap.ReplaceAfterMsDefault + 1)
	ticks <- time.Time{}
	c.await("the dead node replaced", on("a", "c", "d"))
	c.startNode("b", 5) // with an empty disk
	view = c.await("it is back, and its former disk retired", func(v shardmap.View) bool {
		return on("a", "b", "c", "d")(v) && len(v.Incarnations["b"]) == 2 && v.Incarnations["b"][0].Retired
	})
	if view.Incarnations["b"][1].Retired {
		t.Fatal("the new disk is retired")
	}
	status := l.Status()
	if !status.Elected || status.Summary.NodesLive != 4 || status.Steps[shardmap.ReasonCreate] != 1 {
		t.Fatalf("status %+v", status)
	}
}

// TestLoopRefusesTooManyShards: a cluster whose map would not fit into the store is refused at once, and not
// waited for.
func TestLoopRefusesTooManyShards(t *testing.T) {
	limits := shardmap.DefaultLimits()
	limits.Create = shardmap.Creation{Cluster: "test", Settings: shardmap.Settings{Shards: shardmap.ShardsMax + 1, Replication: 1}}
	_, err := New(Options{Store: newCluster(t).store, Name: "r", Limits: limits})
	if !errors.Is(err, shardmap.ErrMap) || !strings.Contains(err.Error(), "2049 shards, not 1 to 2048") {
		t.Fatalf("made a loop: %v", err)
	}
}

// TestTwoLoops lets two loops act at once, as when one does not know yet that
// another was elected.
func TestTwoLoops(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"one", "two"} {
		c.startLoop(name, func(o *Options) { o.Store = everElected{o.Store} })
	}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		c.startNode(id, i+1)
	}
	c.await("a map on five nodes", on("a", "b", "c", "d", "e"))
	for _, id := range []string{"a", "b"} {
		if err := c.store.SetDesired(c.ctx, id, shardmap.Draining); err != nil {
			t.Fatal(err)
		}
	}
	c.await("two drained", on("c", "d", "e"))
}

// everElected lets everybody win.
type everElected struct{ shardmap.Store }

func (everElected) Campaign(context.Context, shardmap.Election, string) (shardmap.Leadership, error) {
	return neverLost{}, nil
}

type neverLost struct{}

func (neverLost) Lost() <-chan struct{}        { return nil }
func (neverLost) Resign(context.Context) error { return nil }

func TestLoopHandsOver(t *testing.T) {
	c := newCluster(t)
	_, _, stop := c.startLoop("one", nil)
	for i, id := range []string{"a", "b", "c"} {
		c.startNode(id, i+1)
	}
	c.await("a map on three nodes", on("a", "b", "c"))
	c.startLoop("two", nil)
	stop()
	c.startNode("d", 4)
	c.await("a map on four nodes", on("a", "b", "c", "d"))
}

// TestLoopRefusesLostStore checks that no map is made where nodes have seen one.
func TestLoopRefusesLostStore(t *testing.T) {
	c := newCluster(t)
	l, ticks, _ := c.startLoop("one", nil)
	for i := range 3 {
		store := c.server.Open(shardmap.Seen{})
		info := shardmap.NodeInfo{ID: fmt.Sprintf("n%d", i), Incarnation: fmt.Sprintf("%032x", i+1), RPCAddress: "n:1", Epoch: 7, ClusterID: strings.Repeat("a", 32)}
		if _, err := store.Register(c.ctx, info); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		ticks <- time.Time{}
	}
	if view := c.await("a view", func(shardmap.View) bool { return true }); view.Map != nil {
		t.Fatalf("a map was made: %+v", view.Map)
	}
	if l.Status().StepsAhead != 0 {
		t.Fatal("steps are planned")
	}
}

// TestLoopWaitsOnStoreSetBack sets the store back to an old map. A loop that starts then
// has seen nothing newer, but nodes have: it must not give raft ids again.
func TestLoopWaitsOnStoreSetBack(t *testing.T) {
	c := newCluster(t)
	_, _, stop := c.startLoop("one", nil)
	var registrations []shardmap.Registration
	var infos []shardmap.NodeInfo
	for i := range 3 {
		info := shardmap.NodeInfo{ID: fmt.Sprintf("n%d", i), Incarnation: fmt.Sprintf("%032x", i+1), RPCAddress: "n:1"}
		registration, err := c.server.Open(shardmap.Seen{}).Register(c.ctx, info)
		if err != nil {
			t.Fatal(err)
		}
		registrations, infos = append(registrations, registration), append(infos, info)
	}
	c.await("a map on three nodes", on("n0", "n1", "n2"))
	backup := c.server.Snapshot()
	c.startNode("d", 9)
	newest := c.await("a map on four nodes", on("d", "n0", "n1", "n2")).Map
	for i, registration := range registrations {
		infos[i].ClusterID, infos[i].Epoch = newest.ID, newest.Epoch
		if err := registration.Update(c.ctx, infos[i]); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	c.server.Restore(backup)
	l, ticks, _ := c.startLoop("two", nil)
	for range 3 {
		ticks <- time.Time{}
	}
	for !l.Status().Elected || l.Status().Waiting == nil {
		ticks <- time.Time{} // until it has seen the store, and may act
	}
	ticks <- time.Time{}
	ticks <- time.Time{} // and the one before is done
	status := l.Status()
	if !errors.Is(status.Waiting, shardmap.ErrRolledBack) || len(status.Steps) > 0 || !status.LastPlan.IsZero() {
		t.Fatalf("status %+v", status)
	}
	if got := gathered(t, l)["tickmesh_placement_waiting"]; got != 1 {
		t.Fatalf("the metric says %v", got)
	}
	rescuer := c.server.Open(shardmap.Seen{})
	old, err := rescuer.Load(c.ctx)
	if err != nil || old.Map.Epoch >= newest.Epoch {
		t.Fatalf("epoch %d, was %d: %v", old.Map.Epoch, newest.Epoch, err)
	}
	rescued := newest.Clone()
	rescued.Epoch += 1000
	if err := rescuer.CompareAndSwap(c.ctx, old.Map.Epoch, rescued); err != nil {
		t.Fatal(err)
	}
	c.startNode("e", 10)
	c.await("a map on five nodes", on("d", "e", "n0", "n1", "n2"))
	if err := l.Status().Waiting; err != nil {
		t.Fatal(err)
	}
}

// TestLoopSpreadsLeaders plays leaders that all sit on one node.
func TestLoopSpreadsLeaders(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	leaders := map[uint16]string{}
	_, ticks, _ := c.startLoop("one", func(o *Options) {
		o.Leaders = func() shardmap.Leaders {
			mu.Lock()
			defer mu.Unlock()
			return shardmap.Leaders{ByShard: maps.Clone(leaders)}
		}
		o.Transfer = func(_ context.Context, tr shardmap.Transfer) error {
			mu.Lock()
			defer mu.Unlock()
			if leaders[tr.Shard] != tr.From {
				return errors.New("not the leader")
			}
			leaders[tr.Shard] = tr.To
			return nil
		}
	})
	for i, id := range []string{"a", "b", "c"} {
		c.startNode(id, i+1)
	}
	view := c.await("a map on three nodes", on("a", "b", "c"))
	mu.Lock()
	for shard, row := range view.Map.Rows {
		leaders[uint16(shard)] = row.Members[0].Node
	}
	mu.Unlock()
	for range 16 {
		ticks <- time.Time{}
	}
	ticks <- time.Time{} // the one before is done
	mu.Lock()
	defer mu.Unlock()
	count := map[string]int{}
	for _, node := range leaders {
		count[node]++
	}
	if counts := slices.Sorted(maps.Values(count)); len(counts) != 3 || counts[2]-counts[0] > 1 {
		t.Fatalf("leaders: %v", count)
	}
}

func TestMetrics(t *testing.T) {
	c := newCluster(t)
	l, _, _ := c.startLoop("one", nil)
	for i, id := range []string{"a", "b", "c"} {
		c.startNode(id, i+1)
	}
	c.await("a map on three nodes", on("a", "b", "c"))
	got := gathered(t, l)
	for name, want := range map[string]float64{
		"tickmesh_placement_elected": 1, "tickmesh_placement_store_available": 1, "tickmesh_placement_nodes_live": 3, "tickmesh_placement_steps_total": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
}

// gathered returns the sum of each metric of a loop.
func gathered(t *testing.T, l *Loop) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(l))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			got[family.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}
