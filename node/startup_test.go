package node

import (
	"slices"
	"testing"
)

// A shard counts as caught up with what was committed when it was looked at first, and
// never as behind again.
func TestStartup(t *testing.T) {
	const none = targetUnknown
	type found = map[uint16]standing
	for name, looks := range map[string][]struct {
		found found
		want  []uint16
	}{
		"nothing to catch up with": {{found{}, nil}, {found{1: {0, 9}}, nil}},
		"caught up at once":        {{found{1: {9, 9}}, nil}, {found{1: {9, 20}}, nil}},
		"the target stays":         {{found{1: {3, 9}}, []uint16{1}}, {found{1: {8, 50}}, []uint16{1}}, {found{1: {9, 99}}, nil}, {found{1: {9, none}}, nil}},
		"one after the other":      {{found{1: {3, 9}, 2: {3, 9}}, []uint16{1, 2}}, {found{1: {9, 20}, 2: {4, 20}}, []uint16{2}}, {found{1: {10, 30}, 2: {9, 30}}, nil}},
		"no leader":                {{found{1: {3, none}}, []uint16{1}}, {found{1: {3, none}}, []uint16{1}}, {found{1: {3, 5}}, []uint16{1}}, {found{1: {5, 7}}, nil}},
		"a leader is lost":         {{found{1: {3, 9}}, []uint16{1}}, {found{1: {3, none}}, []uint16{1}}, {found{1: {9, none}}, nil}},
		"it votes no more":         {{found{1: {3, 9}}, []uint16{1}}, {found{}, nil}},
		"a shard that came later":  {{found{1: {9, 9}}, nil}, {found{1: {9, 9}, 2: {0, 9}}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var s startup
			if s.up() {
				t.Error("it is up before it was looked at")
			}
			for i, l := range looks {
				if got := s.look(l.found); !slices.Equal(got, l.want) {
					t.Errorf("look %d: %v, want %v", i, got, l.want)
				}
				if got := s.up(); got != (len(l.want) == 0) {
					t.Errorf("look %d: up is %v", i, got)
				}
			}
		})
	}
}

// A node is up once it has applied what was committed when it was started, and stays up
// while entries are under way, and while its groups have no majority.
func TestStarting(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	n := c.reach("", "b")
	c.await("the node to have caught up", func() bool { return c.caughtUp(n) })
	applied := &n.loop.applied[0]
	index := applied.value.Load()
	n.startup = startup{}
	applied.value.Store(index - 1)
	if got := n.Starting(); len(got) != 1 || got[0] != 0 {
		t.Errorf("%d is behind, but an entry is not applied", got)
	}
	behind := make(chan []uint16, 1)
	go func() { behind <- n.Starting() }()
	c.await("somebody to wait", func() bool { return applied.waiters.Load() > 0 })
	applied.advance(index)
	if got := <-behind; len(got) > 0 {
		t.Errorf("%d is behind, and all entries are applied", got)
	}
	applied.value.Store(index - 1)
	if got := n.Starting(); len(got) > 0 {
		t.Errorf("%d is behind after the node was up", got)
	}
	applied.advance(index)
}

// A node that was started while its groups have no majority is not up until they have one.
func TestStartingWithoutMajority(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	starting := func(name string) int { return len(c.reach("", name).Starting()) }
	c.await("all to have caught up", func() bool { return starting("a")+starting("b")+starting("c") == 0 })
	c.kill("a")
	c.kill("b")
	if n := starting("c"); n > 0 {
		t.Errorf("%d shards of a node that was up", n)
	}
	c.kill("c")
	c.open("c")
	if n := starting("c"); n != testShards {
		t.Errorf("%d shards are waited for, want all %d", n, testShards)
	}
	c.open("a")
	c.open("b")
	c.await("all to have caught up again", func() bool { return starting("a")+starting("b")+starting("c") == 0 })
}
