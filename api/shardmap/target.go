package shardmap

import "slices"

// none stands for no node.
const none = -1

// wish is what planning wants of one row.
type wish struct {
	row     *Row
	at      []int // nodes of the row's members, in their order
	able    bool  // a majority of its voters and a full one are live: it can change
	pinned  bool  // on its way to where it should be: not moved for balance
	fulls   []int
	witness int // none: without
	reason  Reason
}

// because keeps the first, which is the weightiest, reason.
func (w *wish) because(r Reason) {
	if w.reason == "" {
		w.reason = r
	}
}

// targets computes who should hold each shard. It starts from where each row is
// going (Intended, else Members), mends what is wrong with it, then evens out. Full
// voters are decided without a look at witnesses, which follow: so a witness that
// makes way for a full voter does not change what is decided about full voters.
type targets struct {
	*nodeSet
	replication int
	wishes      []wish
	fullLoads   []int
}

func newTargets(m *Map, p *nodeSet) *targets {
	t := &targets{nodeSet: p, replication: m.Settings.Replication, wishes: make([]wish, len(m.Rows)), fullLoads: make([]int, len(p.all))}
	for shard := range m.Rows {
		t.wishes[shard] = t.begin(&m.Rows[shard])
		for _, node := range t.wishes[shard].fulls {
			t.fullLoads[node]++
		}
	}
	return t
}

// compute decides full voters, then witnesses. In a map that exists, witnesses are
// evened out only once full voters are where they should be, as each of those may
// change the choice.
func (t *targets) compute(exists bool) {
	before := make([][]int, len(t.wishes))
	for shard := range t.wishes {
		before[shard] = slices.Clone(t.wishes[shard].fulls)
	}
	for shard := range t.wishes {
		t.mendFulls(shard)
	}
	for shard := range t.wishes {
		t.mendZones(shard)
	}
	t.evenFulls()
	fullsStay := true
	for shard := range t.wishes {
		fullsStay = fullsStay && slices.Equal(before[shard], t.wishes[shard].fulls)
	}
	if t.replication == 2 {
		t.decideWitnesses(fullsStay || !exists)
	}
}

// begin returns a row's wish before anything is mended. A row that cannot change
// keeps what it has.
func (t *targets) begin(row *Row) wish {
	w := wish{row: row, at: t.numbersOf(row.Members), able: t.able(row), witness: none}
	for _, member := range row.Target() {
		if member.Role == Full && (!w.able || t.good(row, member)) {
			w.fulls = append(w.fulls, t.byID[member.Node])
		}
	}
	slices.Sort(w.fulls)
	w.fulls = slices.Compact(w.fulls)
	w.pinned = row.Intended != nil
	return w
}

// able reports whether a row's group can change its configuration, with someone live
// who has all the data.
func (t *targets) able(row *Row) bool { return t.sustained(row, row.Members) }

// good reports whether a member that the row has or intends needs no replacement.
func (t *targets) good(row *Row, m Member) bool {
	if slices.ContainsFunc(row.Members, m.SameReplica) {
		return t.stays(m)
	}
	return t.awaited(m)
}

// mendFulls brings a row to as many full voters as wanted.
func (t *targets) mendFulls(shard int) {
	w := &t.wishes[shard]
	if !w.able {
		return
	}
	if lost := t.lost(w.row, Full); lost != "" && len(w.fulls) < t.replication {
		w.because(lost)
	}
	for len(w.fulls) > t.replication {
		w.because(ReasonSurplus)
		t.removeFull(w, t.surplus(shard))
	}
	for len(w.fulls) < t.replication {
		node := t.newFull(shard)
		if node == none {
			break
		}
		w.because(ReasonRepair)
		w.pinned = false
		t.addFull(w, node)
	}
	for _, member := range w.row.Members {
		if len(w.fulls) >= t.replication {
			break
		}
		if node := t.byID[member.Node]; member.Role == Full && t.returns(member) && !contains(w.fulls, node) {
			t.addFull(w, node)
		}
	}
}

// lost returns why a member of the role that the row was going to have cannot stay.
func (t *targets) lost(row *Row, role Role) Reason {
	reason := Reason("")
	for _, member := range row.Target() {
		if member.Role != role || t.good(row, member) {
			continue
		}
		switch {
		case !slices.ContainsFunc(row.Members, member.SameReplica):
			reason = ReasonReverse
		case t.all[t.byID[member.Node]].wanted:
			return ReasonReplace
		default:
			reason = ReasonDrain
		}
	}
	return reason
}

func (t *targets) addFull(w *wish, node int) {
	w.fulls = append(w.fulls, node)
	slices.Sort(w.fulls)
	t.fullLoads[node]++
}

func (t *targets) removeFull(w *wish, node int) {
	w.fulls = slices.DeleteFunc(w.fulls, func(n int) bool { return n == node })
	t.fullLoads[node]--
}

// newFull picks the node for a further full voter: in a zone of its own, best one
// that has the data already, else the one with the fewest.
func (t *targets) newFull(shard int) int {
	w := &t.wishes[shard]
	best, bestRank := none, [4]int{}
	for node := range t.all {
		if !t.all[node].take || contains(w.fulls, node) {
			continue
		}
		rank := [4]int{t.crowdingWith(w.fulls, node), t.moveCost(w, node, Full), t.fullLoads[node], int(t.preference(shard, node))}
		if best == none || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, bestRank = node, rank
		}
	}
	return best
}

// Costs of bringing a role to a node.
const (
	costFree     = 0 // it has the role already
	costMove     = 1
	costConflict = 2 // it has another role, or learns for none that is known: that replica leaves first
)

// moveCost returns what it costs to give the node a role in the row.
func (t *targets) moveCost(w *wish, node int, role Role) int {
	cost := costMove
	for i, at := range w.at {
		if at != node {
			continue
		}
		member := w.row.Members[i]
		switch {
		case !t.all[at].has(member):
		case member.Role == role:
			return costFree
		case !w.row.madeAs(member.as(role)):
			cost = costConflict
		}
	}
	return cost
}

// surplus picks the full voter to give up: one that is not there yet, in a zone with
// others, on the fullest node.
func (t *targets) surplus(shard int) int {
	w := &t.wishes[shard]
	best, bestRank := none, [4]int{}
	for _, node := range w.fulls {
		rank := [4]int{t.crowdingWith(w.fulls, node), t.moveCost(w, node, Full), t.fullLoads[node], int(t.preference(shard, node))}
		if best == none || slices.Compare(rank[:], bestRank[:]) > 0 {
			best, bestRank = node, rank
		}
	}
	return best
}

// mendZones moves full voters that share a zone while that helps.
func (t *targets) mendZones(shard int) {
	w := &t.wishes[shard]
	if !w.able || w.pinned {
		return
	}
	for t.crowding(w.fulls) > 0 {
		from, to := t.uncrowd(shard)
		if from == none {
			return
		}
		w.because(ReasonZones)
		t.removeFull(w, from)
		t.addFull(w, to)
	}
}

// uncrowd finds the move that leaves the fewest pairs in one zone.
func (t *targets) uncrowd(shard int) (from, to int) {
	w := &t.wishes[shard]
	from, to = none, none
	bestRank := [4]int{t.crowding(w.fulls)} // no move is as good as none
	for _, leaves := range w.fulls {
		if !t.all[leaves].give {
			continue
		}
		for comes := range t.all {
			if !t.all[comes].take || contains(w.fulls, comes) {
				continue
			}
			after := replaced(w.fulls, leaves, comes)
			rank := [4]int{t.crowding(after), t.moveCost(w, comes, Full), t.fullLoads[comes] - t.fullLoads[leaves], int(t.preference(shard, comes))}
			if rank[0] < t.crowding(w.fulls) && (from == none || slices.Compare(rank[:], bestRank[:]) < 0) {
				from, to, bestRank = leaves, comes, rank
			}
		}
	}
	return from, to
}

func replaced(nodes []int, from, to int) []int {
	after := slices.Clone(nodes)
	after[slices.Index(after, from)] = to
	return after
}

// evenFulls spreads full voters evenly, without crowding zones: first by changing
// only what is planned and not yet begun, which costs nothing, then by moves.
func (t *targets) evenFulls() {
	t.evenFullsOf(true)
	t.evenFullsOf(false)
}

func (t *targets) evenFullsOf(plannedOnly bool) {
	s := t.newSpread(t.fullLoads)
	s.nodes = func(shard int) []int {
		if w := &t.wishes[shard]; w.able && !w.pinned {
			return w.fulls
		}
		return nil
	}
	s.cost = func(shard, from, to int) int {
		w := &t.wishes[shard]
		if contains(w.fulls, to) || t.crowdingAfter(w.fulls, from, to) > t.crowdingWith(w.fulls, from) {
			return -1
		}
		here := t.moveCost(w, from, Full) == costFree
		if plannedOnly && here {
			return -1
		}
		// A move away from where the data is costs one more than changing a plan.
		return 2*t.moveCost(w, to, Full) + oneIf(here)
	}
	s.move = func(shard, from, to int) {
		w := &t.wishes[shard]
		w.because(ReasonBalance)
		w.fulls = replaced(w.fulls, from, to)
		slices.Sort(w.fulls)
	}
	s.even()
}

func (t *targets) newSpread(loads []int) *spread {
	s := &spread{loads: loads, give: make([]bool, len(t.all)), take: make([]bool, len(t.all)), rows: len(t.wishes)}
	for node := range t.all {
		s.give[node], s.take[node] = t.all[node].give, t.all[node].take
	}
	return s
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
