package shardmap

import "slices"

// spread evens out how many rows each node holds, by moves of one row from one node
// to another. Where no single move helps, it looks for the shortest chain of moves
// (u→v in one row, v→w in another): it unloads u and loads w, and leaves v as it is.
// Rows whose choices form a matroid, as "distinct zones" does, are spread as evenly
// as is possible this way.
type spread struct {
	loads []int           // rows by node
	give  []bool          // nodes that may lose rows
	take  []bool          // nodes that may get rows
	rows  int             // number of rows
	nodes func(int) []int // nodes of a row that may be moved away; nil: the row stays
	// cost of moving a row: less is better, negative: not allowed.
	cost func(row, from, to int) int
	move func(row, from, to int)
	held [][]int // by node: its rows that may be moved away, in their order; kept by even
}

// edge is how a search reached a node.
type edge struct{ row, from int }

// even makes moves until no chain takes a row from a node to one that has at least
// two fewer. Each chain lowers the sum of squared loads, so it ends. A node that no chain
// unloads is not tried again before all others are, as a search that finds nothing goes far.
func (s *spread) even() {
	s.held = make([][]int, len(s.loads))
	for row := range s.rows {
		for _, node := range s.nodes(row) {
			s.held[node] = append(s.held[node], row)
		}
	}
	spent, moved := make([]bool, len(s.loads)), false
	for {
		from := -1
		for node, load := range s.loads {
			if s.give[node] && !spent[node] && (from < 0 || load > s.loads[from]) {
				from = node
			}
		}
		switch {
		case from >= 0 && s.unload(from):
			moved = true
		case from >= 0:
			s.spend(from, spent)
		case !moved:
			return
		default: // a move may have opened a way for those that had none
			clear(spent)
			moved = false
		}
	}
}

// spend marks a node that no chain unloads, and all of whom the same is certain: those that it
// leads to, even if a row could be moved twice, and that have no more rows than it.
func (s *spread) spend(from int, spent []bool) {
	spent[from] = true
	if len(s.lacking(from)) == 0 {
		for node, load := range s.loads {
			spent[node] = spent[node] || load <= s.loads[from]
		}
		return
	}
	reached := make([]*edge, len(s.loads))
	reached[from] = &edge{-1, -1}
	all := s.takers()
	found := []int{from}
	for i := 0; i < len(found); i++ {
		for _, node := range s.reach(found[i], all, reached, true) {
			if s.loads[node] <= s.loads[from]-2 {
				return
			}
			found = append(found, node)
		}
	}
	for _, node := range found {
		spent[node] = spent[node] || s.loads[node] <= s.loads[from]
	}
}

// lacking returns the nodes that may get rows and have at least two fewer than a node.
func (s *spread) lacking(than int) (nodes []int) {
	for node, load := range s.loads {
		if s.take[node] && load <= s.loads[than]-2 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// takers returns the nodes that may get rows.
func (s *spread) takers() []int {
	all := make([]int, 0, len(s.loads))
	for node, take := range s.take {
		if take {
			all = append(all, node)
		}
	}
	return all
}

// unload makes the shortest chain of moves from a node to one with at least two rows
// fewer; of several such nodes to the one with the fewest.
func (s *spread) unload(from int) bool {
	lacking := s.lacking(from)
	if len(lacking) == 0 {
		return false
	}
	// Most chains are one move, for which the other nodes need not be looked at.
	reached := make([]*edge, len(s.loads))
	reached[from] = &edge{-1, -1}
	if best := s.emptiest(s.reach(from, lacking, reached, false)); best >= 0 {
		s.follow(best, reached)
		return true
	}
	all := s.takers()
	for level := []int{from}; len(level) > 0; {
		var next []int
		for _, node := range level {
			next = append(next, s.reach(node, all, reached, false)...)
		}
		best := s.emptiest(slices.DeleteFunc(slices.Clone(next), func(node int) bool { return s.loads[node] > s.loads[from]-2 }))
		if best >= 0 {
			s.follow(best, reached)
			return true
		}
		level = next
	}
	return false
}

// emptiest returns the first of the nodes with the fewest rows; -1: of none.
func (s *spread) emptiest(nodes []int) int {
	best := -1
	for _, node := range nodes {
		if best < 0 || s.loads[node] < s.loads[best] {
			best = node
		}
	}
	return best
}

// reach finds which of the targets a move from node leads to, each by its cheapest row: one that
// the chain to node uses already only if rows may be moved twice.
func (s *spread) reach(node int, targets []int, reached []*edge, twice bool) []int {
	best := make([]edge, len(targets))
	costs := make([]int, len(targets))
	for i := range costs {
		costs[i] = -1
	}
	for _, row := range s.held[node] {
		if !twice && inChain(node, row, reached) {
			continue
		}
		for i, to := range targets {
			if reached[to] != nil || costs[i] == 0 {
				continue
			}
			if cost := s.cost(row, node, to); cost >= 0 && (costs[i] < 0 || cost < costs[i]) {
				best[i], costs[i] = edge{row, node}, cost
			}
		}
	}
	var found []int
	for i, cost := range costs {
		if cost >= 0 {
			reached[targets[i]] = &best[i]
			found = append(found, targets[i])
		}
	}
	return found
}

// inChain reports whether the chain to node uses the row already.
func inChain(node, row int, reached []*edge) bool {
	for e := reached[node]; e.from >= 0; e = reached[e.from] {
		if e.row == row {
			return true
		}
	}
	return false
}

func (s *spread) follow(to int, reached []*edge) {
	s.loads[to]++
	for e := reached[to]; ; e = reached[to] {
		if e.from < 0 {
			s.loads[to]--
			return
		}
		s.move(e.row, e.from, to)
		s.held[e.from] = slices.DeleteFunc(s.held[e.from], func(row int) bool { return row == e.row })
		at, _ := slices.BinarySearch(s.held[to], e.row)
		s.held[to] = slices.Insert(s.held[to], at, e.row)
		to = e.from
	}
}

func contains(list []int, value int) bool {
	for _, v := range list {
		if v == value {
			return true
		}
	}
	return false
}
