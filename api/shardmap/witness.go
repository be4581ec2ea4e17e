package shardmap

import "slices"

// decideWitnesses chooses for each row with two full voters a witness on a third node,
// and if told so evens them out.
func (t *targets) decideWitnesses(even bool) {
	loads := make([]int, len(t.all))
	for shard := range t.wishes {
		w := &t.wishes[shard]
		if w.witness = t.presentWitness(w); w.witness != none {
			loads[w.witness]++
		}
	}
	for shard := range t.wishes {
		w := &t.wishes[shard]
		if w.witness != none || !w.able || len(w.fulls) < t.replication || givesWay(w) {
			continue
		}
		w.witness = t.newWitness(shard, loads)
		if w.witness != none {
			loads[w.witness]++
			w.because(ReasonWitness)
			w.pinned = false
			continue
		}
		if w.witness = t.lastWitness(w); w.witness != none {
			loads[w.witness]++
		}
	}
	if !even {
		return
	}
	for shard := range t.wishes {
		t.uncrowdWitness(shard, loads)
	}
	t.evenWitnesses(loads)
}

// presentWitness returns the witness that a row has or will have, if it may stay.
func (t *targets) presentWitness(w *wish) int {
	for _, member := range w.row.Target() {
		node := t.byID[member.Node]
		if member.Role == Witness && (!w.able || t.good(w.row, member) && !contains(w.fulls, node)) {
			return node
		}
	}
	return none
}

// givesWay reports whether a row is on its way to having no witness: the former one's
// node becomes a full voter next. It gets a new one after that.
func givesWay(w *wish) bool {
	return w.pinned && !slices.ContainsFunc(w.row.Intended, func(m Member) bool { return m.Role == Witness })
}

// newWitness picks the node for a witness: in a zone of its own, best one that is the
// witness already, else the one with the fewest.
func (t *targets) newWitness(shard int, loads []int) int {
	w := &t.wishes[shard]
	best, bestRank := none, [4]int{}
	for node := range t.all {
		if !t.all[node].take || contains(w.fulls, node) {
			continue
		}
		rank := [4]int{t.crowdingWith(w.fulls, node), t.moveCost(w, node, Witness), loads[node], int(t.preference(shard, node))}
		if best == none || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, bestRank = node, rank
		}
	}
	return best
}

// lastWitness returns a published witness that should not stay but is better than none.
func (t *targets) lastWitness(w *wish) int {
	for _, member := range w.row.Members {
		if node := t.byID[member.Node]; member.Role == Witness && t.returns(member) && !contains(w.fulls, node) {
			return node
		}
	}
	return none
}

// uncrowdWitness moves a witness to a zone of its own where there is one.
func (t *targets) uncrowdWitness(shard int, loads []int) {
	w := &t.wishes[shard]
	if !t.witnessMoves(w) || !t.all[w.witness].give {
		return
	}
	to := t.newWitness(shard, loads)
	if to == none || t.crowdingWith(w.fulls, to) >= t.crowdingWith(w.fulls, w.witness) {
		return
	}
	loads[w.witness]--
	loads[to]++
	w.witness = to
	w.because(ReasonZones)
}

func (t *targets) witnessMoves(w *wish) bool { return w.able && !w.pinned && w.witness != none }

func (t *targets) evenWitnesses(loads []int) {
	s := t.newSpread(loads)
	s.nodes = func(shard int) []int {
		if w := &t.wishes[shard]; t.witnessMoves(w) {
			return []int{w.witness}
		}
		return nil
	}
	s.cost = func(shard, from, to int) int {
		w := &t.wishes[shard]
		if contains(w.fulls, to) || t.crowdingWith(w.fulls, to) > t.crowdingWith(w.fulls, from) {
			return -1
		}
		return 2*t.moveCost(w, to, Witness) + oneIf(t.moveCost(w, from, Witness) == costFree)
	}
	s.move = func(shard, _, to int) {
		w := &t.wishes[shard]
		w.because(ReasonBalance)
		w.witness = to
	}
	s.even()
}

// members returns a wish as members, with raft ids where the replicas are there
// already and 0 where they are to be made.
func (t *targets) members(w *wish) []Member {
	wanted := make([]Member, 0, len(w.fulls)+1)
	for _, node := range w.fulls {
		wanted = append(wanted, t.member(w, node, Full))
	}
	if w.witness != none {
		wanted = append(wanted, t.member(w, w.witness, Witness))
	}
	return wanted
}

// member returns the replica that a row has or intends on a node. Where it has one that
// was not made for the role, the raft id is 0.
func (t *targets) member(w *wish, node int, role Role) Member {
	at := &t.all[node]
	m := Member{Node: at.id, Incarnation: at.incarnation, Role: role}
	for _, list := range [][]Member{w.row.Members, w.row.Intended} {
		for _, is := range list {
			if is.Node != at.id || at.incarnation != "" && is.Incarnation != at.incarnation {
				continue
			}
			if is.Role == role || is.Role == Learner || !slices.ContainsFunc(w.row.Members, is.SamePlace) {
				m.Incarnation = is.Incarnation
				if w.row.madeAs(is.as(role)) {
					m.RaftID = is.RaftID
				}
				return m
			}
		}
	}
	return m
}
