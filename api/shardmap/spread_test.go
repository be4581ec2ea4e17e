package shardmap

import (
	"math/rand/v2"
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
// move is allowed and that none is left to be made. Rapid prefers small numbers, with which
// single moves do, so it draws seeds alone: chains need many nodes with the same rows.
func TestSpreadLeavesNoChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 100 {
			checkSpread(t, rng)
		}
	})
}

func checkSpread(t *rapid.T, rng *rand.Rand) {
	nodes, rows, forbidden := 1+rng.IntN(8), rng.IntN(25), rng.IntN(10)
	copies := 1 + rng.IntN(min(3, nodes))
	all := make([]int, nodes)
	for i := range all {
		all[i] = i
	}
	held, loads, crowd := make([][]int, rows), make([]int, nodes), min(copies+rng.IntN(nodes), nodes)
	for row := range held {
		if rng.IntN(10) == 0 {
			continue // it stays
		}
		held[row] = rng.Perm(crowd)[:copies]
		for _, node := range held[row] {
			loads[node]++
		}
	}
	costs := make([]int, 97)
	for i := range costs {
		if costs[i] = rng.IntN(4); rng.IntN(10) < forbidden {
			costs[i] = -1
		}
	}
	s := &spread{loads: loads, rows: rows, give: make([]bool, nodes), take: make([]bool, nodes)}
	for node := range all {
		s.give[node], s.take[node] = rng.IntN(4) > 0, rng.IntN(4) > 0
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
}
