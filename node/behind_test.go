package node

import "testing"

// TestBehindUnderLoad: a node that is just about to apply an entry has caught up; one that
// does not has not.
func TestBehindUnderLoad(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	n := c.reach("", "b")
	c.await("the node to have caught up", func() bool { return len(n.Behind()) == 0 && c.caughtUp(n) })
	applied := &n.loop.applied[0]
	index := applied.value.Load()
	applied.value.Store(index - 1)
	behind := make(chan []uint16, 1)
	go func() { behind <- n.Behind() }()
	c.await("somebody to wait", func() bool { return applied.waiters.Load() > 0 })
	applied.advance(index)
	if got := <-behind; len(got) > 0 {
		t.Errorf("%d is behind while an entry is under way", got)
	}
	applied.value.Store(index - 1)
	if got := n.Behind(); len(got) != 1 || got[0] != 0 {
		t.Errorf("%d is behind, but an entry is not applied", got)
	}
	applied.advance(index)
}
