package shardmap

import (
	"fmt"
	"testing"
)

// The first map waits for the nodes that it is told, or for those that copies and witness
// need and, once its time is over, for those that copies need.
func TestFirstPlacementWaits(t *testing.T) {
	const wait = 60_000
	explicit := func(nodes int) Creation { return Creation{InitialNodes: nodes} }
	byDefault := func(replication int) Creation {
		return Creation{InitialNodes: VotersNeeded(replication), LeastNodes: replication, WaitMs: wait}
	}
	for _, c := range []struct {
		name        string
		create      Creation
		replication int
		nodes       int
		waitedMs    int64
		created     bool
	}{
		{"two copies, the first node", byDefault(2), 2, 1, 0, false},
		{"two copies, two nodes at once", byDefault(2), 2, 2, wait - 1, false},
		{"two copies, two nodes after the time", byDefault(2), 2, 2, wait, true},
		{"two copies and a witness", byDefault(2), 2, 3, 0, true},
		{"two copies, one node after the time", byDefault(2), 2, 1, 100 * wait, false},
		{"three copies need no witness", byDefault(3), 3, 3, 0, true},
		{"three copies, two nodes", byDefault(3), 3, 2, 100 * wait, false},
		{"one copy", byDefault(1), 1, 1, 0, true},
		{"as told, fewer", explicit(4), 2, 3, 100 * wait, false},
		{"as told", explicit(4), 2, 4, 0, true},
		{"as told, without a witness", explicit(2), 2, 2, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := DefaultLimits()
			l.Create = c.create
			l.Create.Cluster, l.Create.ID, l.Create.Settings = "test", incarnation(99), Settings{Shards: 8, Replication: c.replication}
			var tracker Tracker
			view := View{Nodes: map[string]NodeInfo{}}
			tracker.Observe(view, 500) // nobody is there yet: it does not count
			for i := range c.nodes {
				id := fmt.Sprintf("node-%d", i)
				view.Nodes[id] = NodeInfo{ID: id, Incarnation: incarnation(i + 1), RPCAddress: "h:1"}
			}
			tracker.Observe(view, 1_000_000)
			steps := Plan(tracker.Observe(view, 1_000_000+c.waitedMs), l)
			if got := len(steps) == 1 && steps[0].Kind == StepCreate; got != c.created {
				t.Errorf("created is %v, want %v: %+v", got, c.created, steps)
			}
		})
	}
}

// The time counts from the first node on of those that are there, not of one that left.
func TestFirstPlacementCountsAnew(t *testing.T) {
	var tracker Tracker
	one := View{Nodes: map[string]NodeInfo{"a": {ID: "a", Incarnation: incarnation(1), RPCAddress: "h:1"}}}
	for _, step := range []struct {
		view View
		now  int64
		want int64
	}{
		{View{}, 10, 0}, {one, 20, 20}, {one, 30, 20}, {View{Err: ErrUnavailable}, 40, 20}, {View{}, 50, 0}, {one, 60, 60},
	} {
		if got := tracker.Observe(step.view, step.now).FirstNodeMs; got != step.want {
			t.Errorf("at %d: %d, want %d", step.now, got, step.want)
		}
	}
}
