package shardmap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawSettings(t *rapid.T) Settings {
	return Settings{Shards: rapid.IntRange(1, 24).Draw(t, "shards"), Replication: rapid.IntRange(1, 3).Draw(t, "replication")}
}

// TestPlanConverges plays joins, deaths, returns with and without the disk, drains
// and changes of mind, with moves ending in any order or only half-way, then lets all
// come to rest.
func TestPlanConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawSettings(t), rapid.IntRange(1, 5).Draw(t, "movesMax"))
		zones := []string{"", "a", "b", "c"}[:rapid.IntRange(1, 4).Draw(t, "zones")]
		nodes := rapid.IntRange(1, 7).Draw(t, "nodes")
		id := func() string { return fmt.Sprintf("n%d", rapid.IntRange(1, nodes).Draw(t, "node")) }
		zoneOf := map[string]string{}
		for i := range nodes {
			zoneOf[fmt.Sprintf("n%d", i+1)] = rapid.SampledFrom(zones).Draw(t, "zone")
		}
		for range rapid.IntRange(1, nodes).Draw(t, "first nodes") {
			node := id()
			w.start(node, zoneOf[node], false)
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			w.event(id(), zoneOf)
		}
		for n := range nodes { // all come back, with the disks they had last
			if node := fmt.Sprintf("n%d", n+1); w.state.Nodes[node].DeadSinceMs != 0 && rapid.Bool().Draw(t, "comes back") {
				w.start(node, zoneOf[node], false)
			}
		}
		w.state.NowMs += w.limits.ReplaceAfterMs + 1
		w.converge()
		w.checkAtRest()
	})
}

// event plays one random event.
func (w *world) event(id string, zoneOf map[string]string) {
	switch rapid.IntRange(0, 9).Draw(w.t, "event") {
	case 0:
		w.start(id, zoneOf[id], false)
	case 1:
		w.start(id, zoneOf[id], rapid.IntRange(0, 3).Draw(w.t, "empty disk") == 0)
	case 2:
		if _, known := w.state.Nodes[id]; known {
			w.kill(id)
		}
	case 3:
		w.state.Desired[id] = rapid.SampledFrom([]Desired{Active, Active, Draining, Gone}).Draw(w.t, "desired")
	case 4:
		w.state.NowMs += rapid.Int64Range(0, 2*w.limits.ReplaceAfterMs).Draw(w.t, "ms")
	case 5, 6:
		for _, s := range w.plan() {
			w.apply(s)
			if rapid.Bool().Draw(w.t, "interrupted") {
				break
			}
		}
	default:
		if w.state.Map != nil {
			w.advance(uint16(rapid.IntRange(0, len(w.state.Map.Rows)-1).Draw(w.t, "shard")), rapid.Bool().Draw(w.t, "halfway"))
		}
	}
}

// checkAtRest checks what must be true once all moves have ended.
func (w *world) checkAtRest() {
	usable := w.usable()
	if w.state.Map == nil {
		if len(usable) > 0 {
			w.t.Fatal("no map was made")
		}
		return
	}
	allAble := true
	for shard, row := range w.state.Map.Rows {
		if !w.able(row) {
			allAble = false
			continue
		}
		w.checkRowAtRest(shard, row, usable)
	}
	if !allAble || w.hasZones(usable) {
		return
	}
	if loads := w.loads(Full, usable); len(usable) >= w.state.Map.Settings.Replication && spreadOf(loads) > 1 {
		w.t.Fatalf("full voters are not balanced: %v", loads)
	}
	if loads := w.loads(Witness, usable); len(usable) >= 3 && spreadOf(loads) > 1 {
		w.t.Fatalf("witnesses are not balanced: %v", loads)
	}
}

func (w *world) hasZones(usable []string) bool {
	return slices.ContainsFunc(usable, func(id string) bool { return w.state.Nodes[id].Zone != "" })
}

func (w *world) checkRowAtRest(shard int, row Row, usable []string) {
	replication := w.state.Map.Settings.Replication
	if row.Intended != nil {
		w.t.Fatalf("shard %d still moves: %+v", shard, row)
	}
	var fulls, witnesses []string
	for _, m := range row.Members {
		switch {
		case m.Role == Learner:
			w.t.Fatalf("shard %d has a learner: %+v", shard, row)
		case len(usable) >= replication && m.Role == Full && (!slices.Contains(usable, m.Node) || !w.live(m)):
			w.t.Fatalf("shard %d is on %s: %+v", shard, m.Node, row)
		case m.Role == Full:
			fulls = append(fulls, m.Node)
		default:
			witnesses = append(witnesses, m.Node)
		}
	}
	if want := min(replication, len(usable)); len(fulls) < want || len(fulls) > replication {
		w.t.Fatalf("shard %d has %d full voters on %d nodes, not %d: %+v", shard, len(fulls), len(usable), want, row)
	}
	if len(usable) < replication {
		return
	}
	wantWitnesses := 0
	if replication == 2 && len(usable) >= 3 {
		wantWitnesses = 1
	}
	if len(witnesses) < wantWitnesses || wantWitnesses == 1 && !slices.Contains(usable, witnesses[0]) {
		w.t.Fatalf("shard %d has witnesses %v: %+v", shard, witnesses, row)
	}
	if got, want := w.sharedZones(fulls), w.sharedZonesLeast(usable, replication); got != want {
		w.t.Fatalf("shard %d: %d pairs share a zone, %d would do: %+v", shard, got, want, row)
	}
}

// sharedZones counts pairs of nodes in one zone.
func (w *world) sharedZones(ids []string) int {
	pairs := 0
	for i := range ids {
		for j := range i {
			if zone := w.state.Nodes[ids[i]].Zone; zone != "" && zone == w.state.Nodes[ids[j]].Zone {
				pairs++
			}
		}
	}
	return pairs
}

// sharedZonesLeast tries all choices of n of the nodes.
func (w *world) sharedZonesLeast(ids []string, n int) int {
	least := n * n
	var choose func(from int, chosen []string)
	choose = func(from int, chosen []string) {
		if len(chosen) == n {
			least = min(least, w.sharedZones(chosen))
			return
		}
		for i := from; i < len(ids); i++ {
			choose(i+1, append(slices.Clone(chosen), ids[i]))
		}
	}
	choose(0, nil)
	return least
}
