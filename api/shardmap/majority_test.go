package shardmap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMajorityKept lets nodes die, come back, be drained and be replaced, and time go on,
// and executes what is planned: a group that has a majority of live voters, and a copy,
// has them still after each step, whichever nodes are dead.
func TestMajorityKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Shards: rapid.IntRange(1, 6).Draw(t, "shards"), Replication: rapid.IntRange(1, 3).Draw(t, "replication")}
		nodes := rapid.IntRange(settings.Replication, 6).Draw(t, "nodes")
		zones := rapid.IntRange(1, nodes).Draw(t, "zones")
		w := convergedWorld(t, nodes, settings, func(i int) string { return fmt.Sprintf("z%d", i%zones) })
		w.limits.MovesMax = rapid.IntRange(1, 4).Draw(t, "movesMax")
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			id := fmt.Sprintf("n%d", rapid.IntRange(1, nodes).Draw(t, "node"))
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				w.kill(id)
			case 1:
				w.start(id, w.state.Nodes[id].Zone, rapid.IntRange(0, 5).Draw(t, "empty disk") == 0)
			case 2:
				w.state.Desired[id] = rapid.SampledFrom([]Desired{Active, Draining, Gone}).Draw(t, "desired")
			case 3:
				w.state.NowMs += rapid.Int64Range(0, w.limits.ReplaceAfterMs).Draw(t, "ms")
			default:
				w.executeNext()
			}
		}
	})
}

// sustained reports whether a group would have a majority of live voters where it goes to.
// Those that do not vote yet wait until they are live.
func (w *world) sustained(row Row) bool {
	var there []Member
	coming := 0
	for _, m := range row.Target() {
		if slices.ContainsFunc(row.Members, func(is Member) bool { return is.SameReplica(m) && is.Role.Votes() }) {
			there = append(there, m)
		} else {
			coming++
		}
	}
	live := coming
	for _, m := range there {
		if w.live(m) {
			live++
		}
	}
	return 2*live > coming+len(there)
}

// executeNext plans until nothing more is to be planned, then lets one group reach what
// it is to aim at.
func (w *world) executeNext() {
	for steps := w.plan(); len(steps) > 0; steps = w.plan() {
		w.apply(steps[0])
	}
	for shard, row := range w.state.Map.Rows {
		if w.able(row) && !w.sustained(row) {
			w.t.Fatalf("shard %d goes on to where it has no live majority: %+v", shard, row)
		}
	}
	shard := uint16(rapid.IntRange(0, len(w.state.Map.Rows)-1).Draw(w.t, "shard"))
	before := w.able(w.state.Map.Rows[shard])
	w.advance(shard, rapid.Bool().Draw(w.t, "halfway"))
	if after := w.state.Map.Rows[shard]; before && !w.able(after) {
		w.t.Fatalf("shard %d has no live majority any more: %+v", shard, after)
	}
}

// TestWitnessStays: a witness that is to become the second copy leaves first, but not
// while the other copy's node is dead and may come back.
func TestWitnessStays(t *testing.T) {
	m := created(t, 3, Settings{Shards: 1, Replication: 2})
	row := m.Rows[0]
	var fulls []string
	witness := ""
	for _, member := range row.Members {
		if member.Role == Full {
			fulls = append(fulls, member.Node)
		} else {
			witness = member.Node
		}
	}
	s := State{Map: &m, Nodes: map[string]NodeState{}, NowMs: 1000}
	for i := range 3 {
		id := fmt.Sprintf("node-%d", i)
		s.Nodes[id] = NodeState{NodeInfo: NodeInfo{ID: id, Incarnation: incarnation(i + 1)}}
	}
	s.Desired = map[string]Desired{fulls[1]: Draining}
	steps := Plan(s, DefaultLimits())
	if len(steps) != 1 || len(steps[0].Intended) != 2 {
		t.Fatalf("with all alive the witness on %s makes way: %+v", witness, steps)
	}
	dead := s.Nodes[fulls[0]]
	dead.DeadSinceMs = 500
	s.Nodes[fulls[0]] = dead
	if steps := Plan(s, DefaultLimits()); len(steps) != 0 {
		t.Fatalf("with one copy alive: %+v", steps)
	}
	begun, err := steps[0].Apply(&m)
	if err != nil {
		t.Fatal(err)
	}
	s.Map = &begun
	steps = Plan(s, DefaultLimits())
	if len(steps) != 1 || !sameMembers(steps[0].Intended, row.Members) || steps[0].Reason != ReasonReverse {
		t.Fatalf("what has begun is not called off: %+v", steps)
	}
}
