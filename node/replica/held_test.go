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
			if !h.mayFollow(g, smallBytes) {
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
