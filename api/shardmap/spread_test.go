package shardmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowSpread looks for a chain in the obvious way: each search looks at all rows and nodes.
type slowSpread struct{ *spread }

// chained reports whether a chain of moves unloads a node.
func (s slowSpread) chained(from int) bool {
	reached := make([]*edge, len(s.loads))
	reached[from] = &edge{-1, -1}
	for level := []int{from}; len(level) > 0; {
		var next []int
		for _, node := range level {
			next = append(next, s.reach(node, reached)...)
		}
		for _, node := range next {
			if s.loads[node] <= s.loads[from]-2 {
				return true
			}
		}
		level = next
	}
	return false
}

func (s slowSpread) reach(node int, reached []*edge) (found []int) {
	best, costs := make([]edge, len(s.loads)), slices.Repeat([]int{-1}, len(s.loads))
	for row := range s.rows {
		if !contains(s.nodes(row), node) || inChain(node, row, reached) {
			continue
		}
		for to := range s.loads {
			if s.take[to] && reached[to] == nil {
				if cost := s.cost(row, node, to); cost >= 0 && (costs[to] < 0 || cost < costs[to]) {
					best[to], costs[to] = edge{row, node}, cost
				}
			}
		}
	}
	for to, cost := range costs {
		if cost >= 0 {
			reached[to] = &best[to]
			found = append(found, to)
		}
	}
	return found
}

// TestSpreadLeavesNoChain draws rows, nodes and moves that are forbidden, and checks that every
// move is allowed and that none is left to be made.
func TestSpreadLeavesNoChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, rows := rapid.IntRange(1, 8).Draw(t, "nodes"), rapid.IntRange(0, 24).Draw(t, "rows")
		copies := rapid.IntRange(1, min(3, nodes)).Draw(t, "copies")
		all := make([]int, nodes)
		for i := range all {
			all[i] = i
		}
		held, loads := make([][]int, rows), make([]int, nodes)
		for row := range held {
			if rapid.IntRange(0, 9).Draw(t, "stays") == 0 {
				continue
			}
			held[row] = slices.Clone(rapid.Permutation(all).Draw(t, "row")[:copies])
			for _, node := range held[row] {
				loads[node]++
			}
		}
		costs := rapid.SliceOfN(rapid.IntRange(-1, 3), 97, 97).Draw(t, "costs")
		s := &spread{
			loads: loads, rows: rows,
			give: rapid.SliceOfN(rapid.Bool(), nodes, nodes).Draw(t, "give"),
			take: rapid.SliceOfN(rapid.Bool(), nodes, nodes).Draw(t, "take"),
		}
		s.nodes = func(row int) []int { return held[row] }
		s.cost = func(row, from, to int) int {
			if contains(held[row], to) {
				return -1
			}
			return costs[(row*31+from*7+to)%len(costs)]
		}
		s.move = func(row, from, to int) {
			if s.cost(row, from, to) < 0 || !s.take[to] {
				t.Fatalf("row %d may not move from %d to %d", row, from, to)
			}
			held[row][slices.Index(held[row], from)] = to
		}
		s.even()
		counted := make([]int, nodes)
		for _, row := range held {
			for _, node := range row {
				counted[node]++
			}
		}
		if !slices.Equal(counted, loads) {
			t.Fatalf("loads %v, counted %v", loads, counted)
		}
		for node := range all {
			if s.give[node] && (slowSpread{s}).chained(node) {
				t.Fatalf("node %d could be unloaded: loads %v", node, loads)
			}
		}
	})
}
