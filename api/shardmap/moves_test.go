package shardmap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// convergedWorld is a world at rest, with nodes n1 to the number given.
func convergedWorld(t *rapid.T, nodes int, settings Settings, zone func(int) string) *world {
	w := newWorld(t, settings, settings.Shards)
	w.limits.Create.InitialNodes = nodes
	for i := range nodes {
		w.start(fmt.Sprintf("n%d", i+1), zone(i), false)
	}
	w.converge()
	w.moved = 0
	return w
}

// TestJoinMovesLeast: a node that joins gets its share and nothing else moves.
func TestJoinMovesLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Shards: rapid.IntRange(1, 32).Draw(t, "shards"), Replication: rapid.SampledFrom([]int{1, 3}).Draw(t, "replication")}
		nodes := rapid.IntRange(settings.Replication, 8).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		w.start("joins", "", false)
		w.converge()
		w.checkAtRest()
		if share := settings.Shards * settings.Replication / (nodes + 1); w.moved != share {
			t.Fatalf("%d moves, %d would do", w.moved, share)
		}
	})
}

// TestLeaveMovesLeast: only what a node held moves when it is drained, is dead for
// too long, or comes back with an empty disk.
func TestLeaveMovesLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Shards: rapid.IntRange(1, 32).Draw(t, "shards"), Replication: rapid.SampledFrom([]int{1, 3}).Draw(t, "replication")}
		nodes := rapid.IntRange(settings.Replication+1, 8).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		held := w.loads(Full, nil)["n1"]
		switch how := rapid.IntRange(0, 2).Draw(t, "how"); {
		case how == 0:
			w.state.Desired["n1"] = Draining
		case settings.Replication == 1:
			return // its data is gone
		case how == 1:
			w.kill("n1")
			w.state.NowMs += w.limits.ReplaceAfterMs
		default:
			w.start("n1", "", true)
		}
		w.converge()
		w.checkAtRest()
		if w.moved != held {
			t.Fatalf("%d moves, the node held %d", w.moved, held)
		}
	})
}

// TestWitnessesMoveLittle: with witnesses roles are changed through a third place, so
// moves are bounded, not least.
func TestWitnessesMoveLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Shards: rapid.IntRange(1, 32).Draw(t, "shards"), Replication: 2}
		nodes := rapid.IntRange(3, 8).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		w.start("joins", "", false)
		w.converge()
		w.checkAtRest()
		if share := settings.Shards * 3 / (nodes + 1); w.moved > 2*share+2 {
			t.Fatalf("%d moves for a share of %d", w.moved, share)
		}
	})
}

// TestZonesBalance: with as many zones as copies or more, all of one size, copies are
// in distinct zones and nodes are balanced all the same.
func TestZonesBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Shards: rapid.IntRange(1, 24).Draw(t, "shards"), Replication: rapid.IntRange(1, 3).Draw(t, "replication")}
		zones, size := rapid.IntRange(3, 4).Draw(t, "zones"), rapid.IntRange(1, 3).Draw(t, "size")
		zone := func(i int) string { return fmt.Sprintf("z%d", i%zones) }
		w := convergedWorld(t, zones*size, settings, zone)
		for round := range 2 {
			for _, role := range []Role{Full, Witness} {
				if role == Witness && settings.Replication != 2 {
					continue
				}
				most := 1
				if role == Witness && zones == 3 {
					most = 2 // the zone that is left is the only one for a witness: full voters decide
				}
				if loads := w.loads(role, w.usable()); spreadOf(loads) > most {
					t.Fatalf("round %d: %s is not balanced: %v", round, role, loads)
				}
			}
			for _, row := range w.state.Map.Rows {
				var ids []string
				for _, m := range row.Members {
					ids = append(ids, m.Node)
				}
				if w.sharedZones(ids) > 0 {
					t.Fatalf("round %d: a zone is shared: %+v", round, row)
				}
			}
			for i := range zones { // one more node in each zone
				w.start(fmt.Sprintf("more%d", i), zone(i), false)
			}
			w.converge()
		}
	})
}

// TestLeadersSpread holds transfers against what they promise.
func TestLeadersSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawSettings(t)
		nodes := rapid.IntRange(settings.Replication, 6).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		leaders := map[uint16]string{}
		for shard, row := range w.state.Map.Rows {
			if rapid.IntRange(0, 9).Draw(t, "known") > 0 {
				leaders[uint16(shard)] = rapid.SampledFrom(row.Members).Draw(t, "leader").Node
			}
		}
		drained := ""
		if nodes > 3 && rapid.Bool().Draw(t, "drains") {
			drained = "n1"
			w.state.Desired[drained] = Draining
		}
		known := len(leaders)
		unfit := ""
		if nodes > 1 && rapid.Bool().Draw(t, "unfit") {
			unfit = "n2"
		}
		for range settings.Shards + 1 {
			transfers := LeaderTransfers(w.state, Leaders{leaders, map[string]bool{unfit: true}}, 2)
			if len(transfers) > 2 {
				t.Fatalf("%d transfers at a time", len(transfers))
			}
			for _, tr := range transfers {
				if leaders[tr.Shard] != tr.From || !slices.ContainsFunc(w.state.Map.Rows[tr.Shard].Members, func(m Member) bool { return m.Node == tr.To && m.Role == Full }) {
					t.Fatalf("transfer %+v", tr)
				}
				if tr.To == unfit {
					t.Fatalf("to a node that is not fit: %+v", tr)
				}
				leaders[tr.Shard] = tr.To
			}
		}
		if rest := LeaderTransfers(w.state, Leaders{leaders, map[string]bool{unfit: true}}, 2); len(rest) > 0 {
			t.Fatalf("it never ends: %+v", rest)
		}
		count := map[string]int{}
		for _, id := range w.usable() {
			count[id] = 0
		}
		for shard, node := range leaders {
			count[node]++
			other := slices.ContainsFunc(w.state.Map.Rows[shard].Members, func(m Member) bool { return m.Role == Full && m.Node != drained && m.Node != unfit })
			if (node == drained || node == unfit) && other {
				t.Fatalf("node %s, drained or unfit, still leads shard %d", node, shard)
			}
		}
		if drained == "" && unfit == "" && known == settings.Shards && settings.Replication == nodes && spreadOf(count) > 1 {
			t.Fatalf("leaders are not spread: %v", count)
		}
	})
}

// TestBoundedMoves plans for a big cluster of which half is drained.
func TestBoundedMoves(t *testing.T) {
	m := created(t, 10, Settings{Shards: ShardsDefault, Replication: 2})
	s := State{Map: &m, Nodes: map[string]NodeState{}, Desired: map[string]Desired{}, NowMs: 1}
	for i := range 10 {
		id := fmt.Sprintf("node-%d", i)
		s.Nodes[id] = NodeState{NodeInfo: NodeInfo{ID: id, Incarnation: incarnation(i + 1)}}
		if i%2 == 0 {
			s.Desired[id] = Draining
		}
	}
	l := DefaultLimits()
	if steps := Plan(s, l); len(steps) != l.MovesMax {
		t.Fatalf("%d steps", len(steps))
	}
	l.MovesMax = 0
	if steps := Plan(s, l); len(steps) != 0 {
		t.Fatalf("steps %v though none is allowed", steps)
	}
}

// grown is the state of a big cluster that a node has just joined.
func grown(tb testing.TB, nodes int, settings Settings) State {
	m := created(tb, nodes, settings)
	s := State{Map: &m, Nodes: map[string]NodeState{}, NowMs: 1}
	for i := range nodes + 1 {
		id := fmt.Sprintf("node-%d", i)
		s.Nodes[id] = NodeState{NodeInfo: NodeInfo{ID: id, Incarnation: incarnation(i + 1)}}
	}
	return s
}

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct{ nodes, shards int }{{3, 128}, {12, 128}, {30, 1024}, {100, 2048}} {
		b.Run(fmt.Sprintf("nodes=%d/shards=%d", c.nodes, c.shards), func(b *testing.B) {
			s := grown(b, c.nodes, Settings{Shards: c.shards, Replication: 3})
			l := DefaultLimits()
			for b.Loop() {
				if len(Plan(s, l)) == 0 {
					b.Fatal("nothing to do")
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	m := created(b, 5, Settings{Shards: ShardsDefault, Replication: 3})
	for b.Loop() {
		encoded, err := m.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(encoded)), "bytes/map")
	}
}

func BenchmarkDecode(b *testing.B) {
	m := created(b, 5, Settings{Shards: ShardsDefault, Replication: 3})
	encoded, err := m.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTwoLoopsRest lets two loops act in turn that differ in how long nodes have been
// dead, as when one was started later, and in how many moves they allow. They come to
// rest together.
func TestTwoLoopsRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawSettings(t)
		nodes := rapid.IntRange(2, 7).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(i int) string { return []string{"", "a", "b"}[i%3] })
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			id := fmt.Sprintf("n%d", rapid.IntRange(1, nodes+2).Draw(t, "node"))
			switch _, known := w.state.Nodes[id]; {
			case !known:
				w.start(id, rapid.SampledFrom([]string{"", "a", "c"}).Draw(t, "zone"), false)
			case rapid.Bool().Draw(t, "dies"):
				w.kill(id)
			default:
				w.state.Desired[id] = Draining
			}
		}
		w.state.NowMs += w.limits.ReplaceAfterMs
		w.limits.MovesMax = 2
		other := w.limits
		other.ReplaceAfterMs, other.MovesMax = 1<<60, 5
		for round := 0; ; round++ {
			if round > 100*settings.Shards {
				t.Fatalf("no rest: %v and %v", Plan(w.state, w.limits), Plan(w.state, other))
			}
			busy := false
			for _, l := range []Limits{w.limits, other} {
				if steps := Plan(w.state, l); len(steps) > 0 {
					w.apply(steps[0])
					busy = true
				}
			}
			shard := uint16(rapid.IntRange(0, settings.Shards-1).Draw(t, "shard"))
			for range settings.Shards {
				if w.advance(shard, false) {
					busy = true
					break
				}
				shard = (shard + 1) % uint16(settings.Shards)
			}
			if !busy {
				return
			}
		}
	})
}
