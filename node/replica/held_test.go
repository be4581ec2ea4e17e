package replica

import (
	"testing"

	"pgregory.net/rapid"
)

// Groups that take all they can, and give nothing back, leave room for each other, and hold no
// more together than all may.
func TestGroupsThatAreStuckLeaveRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(16<<20, 64<<20).Draw(t, "most")
		groups := rapid.IntRange(1, 128).Draw(t, "groups")
		all := []*group{}
		h := &shared{config: Config{EntriesBytesMax: most}, groups: groups}
		for range groups {
			g := &group{}
			g.log.tailBytes.total = &h.heldBytes
			all = append(all, g)
		}
		size := rapid.IntRange(64<<10, 1<<20)
		stuck := rapid.IntRange(0, groups-1).Draw(t, "stuck")
		for _, g := range all[:stuck] {
			for n := size.Draw(t, "entry"); h.hasRoom(g, n); {
				g.log.tailBytes.add(n)
			}
		}
		if held := h.heldBytes; held > most-most/reservedPart+groups*heldBytesMin {
			t.Fatalf("%d groups hold %d of %d bytes", stuck, held, most)
		}
		last := all[stuck]
		if !h.hasRoom(last, heldBytesMin) {
			t.Fatalf("%d groups leave nothing of %d bytes", stuck, most)
		}
		// The first entry of a term fits, however much the group holds.
		for _, g := range all[:stuck] {
			if !h.mayFollow(g, smallBytes, 1) {
				t.Fatal("a group that is stuck may not go on")
			}
		}
		// What is kept for members that lag is a part of it.
		h.config.CacheBytesMax = 256 << 10
		if h.cacheBytes()*groups > most/cachedPart {
			t.Fatalf("%d groups keep %d bytes each", groups, h.cacheBytes())
		}
	})
}

// A group that nobody shares the node with may hold half of what is not reserved for small entries,
// what it can give out meanwhile counted twice.
func TestOneGroupHasHalf(t *testing.T) {
	const most = 64 << 20
	g := &group{}
	h := &shared{config: Config{EntriesBytesMax: most}, groups: 1}
	g.log.tailBytes.total = &h.heldBytes
	for h.hasRoom(g, 1<<20) {
		g.log.tailBytes.add(1 << 20)
	}
	if want := (most - most/reservedPart) / 2; g.log.tailBytes.n < want-1<<20 || g.log.tailBytes.n > want {
		t.Errorf("it holds %d bytes, want about %d", g.log.tailBytes.n, want)
	}
}

// A follower with little memory takes what its leader, which has more, puts into one message, while
// other groups hold all that there is room for.
func TestFollowerWithLittleMemoryGoesOn(t *testing.T) {
	w := newWorld(t, 1, 3)
	const shards, entries = 2, 2
	for shard := range uint16(shards) {
		w.fresh(shard, members(full, full, full))
	}
	w.until("leaders", func() bool { return w.leaderOf(0) != nil && w.leaderOf(1) != nil })
	for shard := range uint16(shards) {
		leader := w.leaderOf(shard)
		for range entries {
			if !w.proposeLarge(leader, shard, heldBytesMin) {
				t.Fatal("not proposed")
			}
		}
	}
	for _, n := range w.nodes {
		n.host.shared.config.EntriesBytesMax = heldBytesMin
	}
	w.until("all nodes have all", func() bool {
		for _, n := range w.nodes {
			for shard := range uint16(shards) {
				large := 0
				for _, content := range n.engine[shard].data {
					if len(content) > heldBytesMin {
						large++
					}
				}
				if large < entries {
					return false
				}
			}
		}
		return true
	})
}

// A follower with little memory that has an entry of which it does not know that it is decided takes the
// next ones of a new leader, which decides nothing before.
func TestFollowerWithLittleMemoryFollowsNewLeader(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.fresh(0, members(full, full, full))
	w.until("a leader", func() bool { return w.leaderOf(0) != nil })
	first := w.leaderOf(0)
	var lagging *testNode
	for _, n := range w.nodes {
		if n != first {
			lagging = n
		}
	}
	w.until("all idle", func() bool { return lagging.disk[0].last == first.disk[0].last })
	last := first.disk[0].last
	if !w.proposeLarge(first, 0, heldBytesMin) {
		t.Fatal("not proposed")
	}
	w.until("it has the entry", func() bool { return lagging.disk[0].last == last+1 })
	w.crash(lagging)
	if !w.proposeLarge(first, 0, heldBytesMin) {
		t.Fatal("not proposed")
	}
	w.until("the second is applied", func() bool { return first.engine[0].applied >= last+2 })
	w.ticks(20)
	w.crash(first)
	w.start(lagging)
	lagging.host.shared.config.EntriesBytesMax = heldBytesMin
	w.until("it has all", func() bool { return lagging.engine[0].applied >= last+2 })
}

// A follower with little memory whose acknowledgement is lost says again that it has the entries, whatever comes
// behind them.
func TestFollowerWithLittleMemorySaysAgainWhatItHas(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.fresh(0, members(full, full))
	w.until("a leader", func() bool { return w.leaderOf(0) != nil })
	leader := w.leaderOf(0)
	follower := w.nodes[0]
	if follower == leader {
		follower = w.nodes[1]
	}
	w.until("both idle", func() bool { return follower.disk[0].last == leader.disk[0].last })
	w.ticks(20)
	follower.host.shared.config.EntriesBytesMax = heldBytesMin
	last := leader.disk[0].last
	if !w.proposeLarge(leader, 0, heldBytesMin) {
		t.Fatal("not proposed")
	}
	answers := [2]string{follower.name, leader.name}
	w.cut = map[[2]string]bool{answers: true}
	w.until("it has the entry", func() bool { return follower.disk[0].last == last+1 && !follower.waiting })
	w.cut = nil
	w.until("it has all", func() bool { return follower.engine[0].applied > last })
}
