package shardmap

import "slices"

// Transfer asks the leader of a shard to hand over to another full voter.
type Transfer struct {
	Shard    uint16
	From, To string // nodes
}

// Leaders is what is known of who leads.
type Leaders struct {
	ByShard map[uint16]string // node; of a shard that is not in it nothing is known
	// Unfit are nodes that should lead nothing for now: they take no writes, or do not answer.
	Unfit map[string]bool
}

// LeaderTransfers returns the transfers that spread leaders evenly over the nodes that
// are live, wanted and fit, and take them off the others. A shard without a known leader,
// or with a move going on, is left alone. At
// most transfersMax are returned. It is a pure function; when all transfers were made it
// returns none.
func LeaderTransfers(s State, leaders Leaders, transfersMax int) []Transfer {
	if s.Map == nil {
		return nil
	}
	p := newNodeSet(&s, &Limits{ReplaceAfterMs: ReplaceAfterMsDefault})
	l := &leading{nodeSet: p, unfit: leaders.Unfit, rows: s.Map.Rows, leaders: make([]int, len(s.Map.Rows)), loads: make([]int, len(p.all))}
	for shard := range l.rows {
		l.leaders[shard] = none
		if node, known := leaders.ByShard[uint16(shard)]; known && l.leads(shard, node) {
			l.leaders[shard] = p.byID[node]
			l.loads[p.byID[node]]++
		}
	}
	before := slices.Clone(l.leaders)
	l.relieve()
	l.even()
	var transfers []Transfer
	for shard, node := range l.leaders {
		if node != before[shard] && len(transfers) < transfersMax {
			transfers = append(transfers, Transfer{uint16(shard), p.all[before[shard]].id, p.all[node].id})
		}
	}
	return transfers
}

// leading describes who leads, and who should.
type leading struct {
	*nodeSet
	unfit   map[string]bool
	rows    []Row
	leaders []int // by shard; none: not known, or left alone
	loads   []int
}

// leads reports whether a node can be the leader that is said of it.
func (l *leading) leads(shard int, node string) bool {
	return l.rows[shard].Intended == nil && slices.ContainsFunc(l.rows[shard].Members, func(m Member) bool {
		return m.Node == node && m.Role.Votes()
	})
}

// may reports whether a node may become the leader of a shard.
func (l *leading) may(shard, node int) bool {
	return l.fit(node) && slices.ContainsFunc(l.rows[shard].Members, func(m Member) bool {
		return l.byID[m.Node] == node && m.Role == Full && l.live(m)
	})
}

// fit reports whether a node should lead anything.
func (l *leading) fit(node int) bool { return l.all[node].give && !l.unfit[l.all[node].id] }

// relieve moves leaders off nodes that should not lead, each to the one that leads
// the fewest.
func (l *leading) relieve() {
	for shard, node := range l.leaders {
		if node == none || l.may(shard, node) {
			continue
		}
		best := none
		for to := range l.all {
			if l.may(shard, to) && (best == none || l.loads[to] < l.loads[best]) {
				best = to
			}
		}
		if best != none {
			l.loads[node]--
			l.loads[best]++
			l.leaders[shard] = best
		}
	}
}

func (l *leading) even() {
	s := &spread{loads: l.loads, give: make([]bool, len(l.all)), take: make([]bool, len(l.all)), rows: len(l.rows)}
	for node := range l.all {
		s.give[node], s.take[node] = l.fit(node), l.fit(node)
	}
	s.nodes = func(shard int) []int {
		if l.leaders[shard] == none {
			return nil
		}
		return l.leaders[shard : shard+1]
	}
	s.cost = func(shard, _, to int) int {
		if !l.may(shard, to) {
			return -1
		}
		return 0
	}
	s.move = func(shard, _, to int) { l.leaders[shard] = to }
	s.even()
}
