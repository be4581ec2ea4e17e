package shardmap

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
}

// edge is how a search reached a node.
type edge struct{ row, from int }

// even makes moves until no chain takes a row from a node to one that has at least
// two fewer. Each chain lowers the sum of squared loads, so it ends.
func (s *spread) even() {
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
		if !s.unload(from) {
			spent[from] = true
			continue
		}
		clear(spent)
	}
}

// unload makes the shortest chain of moves from a node to one with at least two rows
// fewer; of several such nodes to the one with the fewest.
func (s *spread) unload(from int) bool {
	reached := make([]*edge, len(s.loads))
	reached[from] = &edge{-1, -1}
	level := []int{from}
	for len(level) > 0 {
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
			s.follow(best, reached)
			return true
		}
		level = next
	}
	return false
}

// reach finds the nodes to which a move from node leads, each by its cheapest row.
func (s *spread) reach(node int, reached []*edge) []int {
	best := make([]edge, len(s.loads))
	costs := make([]int, len(s.loads))
	for i := range costs {
		costs[i] = -1
	}
	for row := range s.rows {
		if !contains(s.nodes(row), node) || inChain(node, row, reached) {
			continue
		}
		for to := range s.loads {
			if !s.take[to] || reached[to] != nil || costs[to] == 0 {
				continue
			}
			if cost := s.cost(row, node, to); cost >= 0 && (costs[to] < 0 || cost < costs[to]) {
				best[to], costs[to] = edge{row, node}, cost
			}
		}
	}
	var found []int
	for to, cost := range costs {
		if cost >= 0 {
			reached[to] = &best[to]
			found = append(found, to)
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
