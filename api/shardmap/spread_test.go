package shardmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowSpread is what spread must do, in the obvious way: each search looks at all rows and nodes.
type slowSpread struct{ *spread }

func (s slowSpread) even() {
	spent := make([]bool, len(s.loads))
	for {
		from := -1
		for node, load := range s.loads {
			if s.give[node] && !spent[node] && (from < 0 || load > s.loads[from]) {
				from = node
			}
		}
		if from < 0 {
			return
		}
		spent[from] = true
		if s.unload(from) {
			clear(spent)
		}
	}
}

func (s slowSpread) unload(from int) bool {
	reached := make([]*edge, len(s.loads))
	reached[from] = &edge{-1, -1}
	for level := []int{from}; len(level) > 0; {
		var next []int
		for _, node := range level {
			next = append(next, s.reach(node, reached)...)
		}
		best := -1
		for _, node := range next {
			if s.loads[node] <= s.loads[from]-2 && (best < 0 || s.loads[node] < s.loads[best]) {
				best = node
			}
		}
		if best >= 0 {
			s.loads[best]++
			for at := best; ; at = reached[at].from {
				if e := reached[at]; e.from < 0 {
					s.loads[at]--
					return true
				} else {
					s.move(e.row, e.from, at)
				}
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

// TestSpreadAsTheSlowOne draws rows, nodes and moves that are forbidden, and compares every move.
func TestSpreadAsTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, rows := rapid.IntRange(1, 8).Draw(t, "nodes"), rapid.IntRange(0, 24).Draw(t, "rows")
		copies := rapid.IntRange(1, min(3, nodes)).Draw(t, "copies")
		all := make([]int, nodes)
		for i := range all {
			all[i] = i
		}
		start := make([][]int, rows)
		for row := range start {
			start[row] = rapid.Permutation(all).Draw(t, "row")[:copies]
			if rapid.IntRange(0, 9).Draw(t, "stays") == 0 {
				start[row] = nil
			}
		}
		give := rapid.SliceOfN(rapid.Bool(), nodes, nodes).Draw(t, "give")
		take := rapid.SliceOfN(rapid.Bool(), nodes, nodes).Draw(t, "take")
		costs := rapid.SliceOfN(rapid.IntRange(-1, 3), 97, 97).Draw(t, "costs")
		type made struct{ row, from, to int }
		run := func(slow bool) (moves []made, loads []int) {
			held := make([][]int, rows)
			loads = make([]int, nodes)
			for row := range start {
				held[row] = slices.Clone(start[row])
				for _, node := range held[row] {
					loads[node]++
				}
			}
			s := &spread{loads: loads, give: give, take: take, rows: rows}
			s.nodes = func(row int) []int { return held[row] }
			s.cost = func(row, from, to int) int {
				if contains(held[row], to) {
					return -1
				}
				return costs[(row*31+from*7+to)%len(costs)]
			}
			s.move = func(row, from, to int) {
				moves = append(moves, made{row, from, to})
				held[row][slices.Index(held[row], from)] = to
			}
			if slow {
				slowSpread{s}.even()
			} else {
				s.even()
			}
			return moves, loads
		}
		moves, loads := run(false)
		wantMoves, wantLoads := run(true)
		if !slices.Equal(moves, wantMoves) || !slices.Equal(loads, wantLoads) {
			t.Fatalf("moves %v to loads %v, expected %v to %v", moves, loads, wantMoves, wantLoads)
		}
	})
}
