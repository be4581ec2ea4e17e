package storetest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testRegister(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	info := node("a", 1)
	entry, err := store.Register(ctx, info)
	must(t, err)
	await(t, views, "the node", func(v shardmap.View) bool { return reflect.DeepEqual(v.Nodes["a"], info) })
	info.UsedBytes, info.Epoch, info.ClusterID = 50, 3, Hex(77)
	must(t, entry.Update(ctx, info))
	view := await(t, views, "its use", func(v shardmap.View) bool { return reflect.DeepEqual(v.Nodes["a"], info) })
	if known := view.Incarnations["a"]; len(known) != 1 || known[0].ID != Hex(1) || known[0].Retired {
		t.Fatalf("known incarnations are %v", known)
	}
	mustBe(t, entry.Update(ctx, node("a", 2)), shardmap.ErrNode)
	mustBe(t, entry.Update(ctx, node("b", 1)), shardmap.ErrNode)
	_, err = store.Register(ctx, shardmap.NodeInfo{ID: "a"})
	mustBe(t, err, shardmap.ErrNode)
	giveBack(t, ctx, entry.Close)
	awaitClosed(t, entry.Lost(), "the entry ends")
	view = await(t, views, "no node", func(v shardmap.View) bool { return len(v.Nodes) == 0 })
	if len(view.Incarnations["a"]) != 1 {
		t.Fatal("the incarnation is forgotten")
	}
	_, err = store.Register(ctx, node("a", 2)) // another disk
	must(t, err)
	await(t, views, "both incarnations, the present one last", func(v shardmap.View) bool {
		known := v.Incarnations["a"]
		return len(known) == 2 && known[0].ID == Hex(1) && known[1].ID == Hex(2)
	})
}

func testTwin(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	entry, err := one.Register(ctx, node("a", 1))
	must(t, err)
	_, err = two.Register(ctx, node("a", 2)) // an old disk comes back elsewhere
	mustBe(t, err, shardmap.ErrNodeHeld)
	copied := node("a", 1) // a copy of the disk, on another machine
	copied.RPCAddress = "elsewhere:6183"
	_, err = two.Register(ctx, copied)
	mustBe(t, err, shardmap.ErrNodeHeld)
	must(t, entry.Update(ctx, node("a", 1)))
	again, err := two.Register(ctx, node("a", 1)) // the same node, started again before its lease ended
	must(t, err)
	awaitClosed(t, entry.Lost(), "the former process' entry ends")
	mustBe(t, entry.Update(ctx, node("a", 1)), shardmap.ErrNodeHeld)
	giveBack(t, ctx, entry.Close) // does not touch the new one
	must(t, again.Update(ctx, node("a", 1)))
	view, err := one.Load(ctx)
	must(t, err)
	if len(view.Nodes) != 1 {
		t.Fatalf("nodes are %v", view.Nodes)
	}
	later := node("a", 3) // the same folder after a power cut, which made it another incarnation
	later.Former = []string{Hex(7), Hex(1)}
	moved := later
	moved.RPCAddress = "elsewhere:6183"
	_, err = one.Register(ctx, moved)
	mustBe(t, err, shardmap.ErrNodeHeld)
	_, err = one.Register(ctx, later)
	must(t, err)
	awaitClosed(t, again.Lost(), "the entry of the incarnation before ends")
}

func testLeaseEnds(t *testing.T, b Backend) {
	ctx := contextOf(t)
	dying, other := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	entry, err := dying.Register(ctx, node("a", 1))
	must(t, err)
	_, err = other.Register(ctx, node("b", 2))
	must(t, err)
	views := other.Watch(ctx)
	await(t, views, "both nodes", func(v shardmap.View) bool { return len(v.Nodes) == 2 })
	b.SetReachable(dying, false)
	b.ExpireLeases()
	awaitClosed(t, entry.Lost(), "the lease ends")
	await(t, views, "one node", func(v shardmap.View) bool {
		_, is := v.Nodes["b"]
		return len(v.Nodes) == 1 && is
	})
	b.SetReachable(dying, true)
	eventually(t, "register again", func() error { _, err := dying.Register(ctx, node("a", 1)); return err })
	await(t, views, "both nodes again", func(v shardmap.View) bool { return len(v.Nodes) == 2 })
}

func testRetire(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	entry, err := store.Register(ctx, node("a", 1))
	must(t, err)
	mustBe(t, store.Retire(ctx, "a", Hex(1)), shardmap.ErrNodeHeld)
	giveBack(t, ctx, entry.Close)
	must(t, store.Retire(ctx, "a", Hex(1)))
	must(t, store.Retire(ctx, "a", Hex(1)))
	must(t, store.Retire(ctx, "a", Hex(9))) // never registered
	_, err = store.Register(ctx, node("a", 1))
	mustBe(t, err, shardmap.ErrRetired)
	_, err = store.Register(ctx, node("a", 2))
	must(t, err)
	_, err = b.Open(t, shardmap.Seen{}).Register(ctx, node("a", 1))
	mustBe(t, err, shardmap.ErrRetired)
	view, err := store.Load(ctx)
	must(t, err)
	want := []shardmap.Incarnation{{ID: Hex(1), Retired: true}, {ID: Hex(9), Retired: true}, {ID: Hex(2)}}
	for i, known := range view.Incarnations["a"] {
		if len(view.Incarnations["a"]) != len(want) || known != want[i] {
			t.Fatalf("known incarnations are %v", view.Incarnations["a"])
		}
	}
	mustBe(t, store.Retire(ctx, "a", "short"), shardmap.ErrNode)
}

// giveBack ends a registration or a leadership. A store does not wait for that for long.
func giveBack(t testing.TB, ctx context.Context, end func(context.Context) error) {
	t.Helper()
	eventually(t, "the lease is given back", func() error { return end(ctx) })
}

// campaign campaigns aside, and sends the outcome.
func campaign(ctx context.Context, store shardmap.Store, name string) <-chan result {
	done := make(chan result, 1)
	go func() {
		l, err := store.Campaign(ctx, shardmap.ElectionPlacement, name)
		done <- result{l, err}
	}()
	return done
}

type result struct {
	leadership shardmap.Leadership
	err        error
}

func testCampaign(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two, three := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	first, err := one.Campaign(ctx, shardmap.ElectionPlacement, "one")
	must(t, err)
	given, giveUp := context.WithCancel(ctx)
	second, third := campaign(given, two, "two"), campaign(ctx, three, "three")
	giveUp()
	mustBe(t, (<-second).err, context.Canceled)
	select {
	case <-first.Lost():
		t.Fatal("a leader is deposed by a candidate")
	case r := <-third:
		t.Fatalf("two are elected: %v", r.err)
	default:
	}
	giveBack(t, ctx, first.Resign)
	awaitClosed(t, first.Lost(), "the leadership ends")
	giveBack(t, ctx, first.Resign)
	r := <-third
	must(t, r.err)
	giveBack(t, ctx, r.leadership.Resign)
	_, err = two.Campaign(ctx, shardmap.ElectionPlacement, "two")
	must(t, err)
}

func testLeaderCut(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	first, err := one.Campaign(ctx, shardmap.ElectionPlacement, "one")
	must(t, err)
	second := campaign(ctx, two, "two")
	b.SetReachable(one, false)
	b.ExpireLeases()
	awaitClosed(t, first.Lost(), "the leader notices that it is cut off")
	must(t, (<-second).err)
}

// testElections: each election has a leader of its own.
func testElections(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	placement, err := one.Campaign(ctx, shardmap.ElectionPlacement, "one")
	must(t, err)
	rules, err := two.Campaign(ctx, shardmap.ElectionRules, "two")
	must(t, err)
	next := campaign(ctx, two, "two")
	giveBack(t, ctx, rules.Resign)
	awaitClosed(t, rules.Lost(), "the leadership ends")
	select {
	case <-placement.Lost():
		t.Fatal("the leader of another election is deposed")
	case r := <-next:
		t.Fatalf("two are elected: %v", r.err)
	default:
	}
	giveBack(t, ctx, placement.Resign)
	must(t, (<-next).err)
}

// testCampaignAfterCompaction: a candidate waits through all that happens to what is stored meanwhile.
func testCampaignAfterCompaction(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	first, err := one.Campaign(ctx, shardmap.ElectionPlacement, "one")
	must(t, err)
	second := campaignAgain(ctx, two, "two")
	for range 20 { // whenever it begins to wait, most of them come later
		must(t, one.SetDesired(ctx, "b", shardmap.Draining))
		must(t, one.SetDesired(ctx, "b", ""))
		b.Compact(t)
		b.Drop(two)
	}
	select {
	case r := <-second:
		t.Fatalf("the wait ends: %v", r.err)
	default:
	}
	giveBack(t, ctx, first.Resign)
	must(t, (<-second).err)
}

// campaignAgain campaigns aside as long as requests are lost with their connection, and
// sends the outcome.
func campaignAgain(ctx context.Context, store shardmap.Store, name string) <-chan result {
	done := make(chan result, 1)
	go func() {
		for {
			l, err := store.Campaign(ctx, shardmap.ElectionPlacement, name)
			if !errors.Is(err, shardmap.ErrUnavailable) || strings.Contains(err.Error(), "compacted") {
				done <- result{l, err}
				return
			}
		}
	}()
	return done
}
