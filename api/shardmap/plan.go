package shardmap

import (
	"cmp"
	"slices"
)

// Plan returns the next steps of placement, the most urgent first. It is a pure
// function: equal arguments give equal steps. Each step can be made on its own; after
// any of them, or when anything else has changed, plan again. When all steps were
// made and all moves have ended, there is none left.
//
// A row gets as many full voters as Settings.Replication says, with replication 2 a
// witness too; in distinct zones where possible; on nodes that are wanted, and not
// dead for longer than ReplaceAfterMs; evenly, within one shard for each of the two
// roles. A replica that should go but cannot be replaced stays. A row whose group
// could not change its configuration is left alone, and no step leads a group from a
// live majority to none: what would waits until nodes are back or replaced.
func Plan(s State, l Limits) []Step {
	p := newNodeSet(&s, &l)
	if s.Map == nil {
		return planCreation(&s, p)
	}
	t := newTargets(s.Map, p)
	t.compute(true)
	return append(t.steps(l.MovesMax), p.retirements(&s)...)
}

// move is a change of a row's aim that is to be made.
type move struct {
	shard    int
	intended []Member
	reason   Reason
	moving   bool // the row is moving already, so this takes no further place
	live     int  // its live full voters
	balance  bool // nothing is wrong with it but the balance
}

// steps returns the changes of rows that the limit allows.
func (t *targets) steps(movesMax int) []Step {
	var moves []move
	free := movesMax
	for shard := range t.wishes {
		w := &t.wishes[shard]
		if w.able && w.row.Intended != nil {
			free--
		}
		if m, ok := t.moveOf(shard); ok {
			moves = append(moves, m)
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int {
		return cmp.Or(cmpTrue(a.moving, b.moving), cmpTrue(!a.balance, !b.balance), cmp.Compare(a.live, b.live))
	})
	var steps []Step
	for _, m := range moves {
		if !m.moving {
			if free <= 0 {
				continue
			}
			free--
		}
		steps = append(steps, Step{Kind: StepIntend, Reason: m.reason, Shard: uint16(m.shard), Intended: m.intended})
	}
	return steps
}

// cmpTrue orders what is true first.
func cmpTrue(a, b bool) int { return oneIf(b) - oneIf(a) }

// moveOf returns the next change of a row's aim, if there is one.
func (t *targets) moveOf(shard int) (move, bool) {
	w := &t.wishes[shard]
	if !w.able {
		return move{}, false
	}
	next := t.nextAim(w)
	if next == nil || sameMembers(next, w.row.Target()) {
		return move{}, false
	}
	reason := w.reason
	if sameMembers(next, w.row.Members) {
		reason = ReasonReverse
	}
	if reason == "" {
		reason = ReasonSurplus // a learner that a move given up left behind
	}
	live := 0
	for _, member := range w.row.Members {
		live += oneIf(member.Role == Full && t.live(member))
	}
	return move{shard, next, reason, w.row.Intended != nil, live, reason == ReasonBalance}, true
}

// nextAim returns what a row should aim at next; nil: what it aims at. No aim is one that
// leaves the group without a live majority: a witness that is to make way stays while
// another voter is dead, and a move that began before that is called off.
func (t *targets) nextAim(w *wish) []Member {
	next := t.towards(w, t.members(w))
	if next != nil && t.sustained(w.row, next) {
		return next
	}
	if target := w.row.Target(); t.sustained(w.row, target) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.row.Members), func(m Member) bool { return !m.Role.Votes() })
}

// sustained reports whether a row's group, once it has such members, could go on with those
// that are live. One that has no vote yet gets none before it is live and has caught up.
func (p *nodeSet) sustained(row *Row, members []Member) bool {
	voters, live, full := 0, 0, false
	for _, m := range members {
		if !m.Role.Votes() {
			continue
		}
		voters++
		comes := !isMember(*row, m) && p.awaited(m)
		if comes || p.live(m) {
			live++
			full = full || m.Role == Full
		}
	}
	return full && 2*live > voters
}

// towards returns what a row should aim at next on its way to the wanted members. A
// replica cannot change its role, so where that is wanted it leaves first; but full
// voters that are live stay until there are enough others.
func (t *targets) towards(w *wish, wanted []Member) []Member {
	var next []Member
	for _, m := range wanted {
		if t.moveCost(w, t.byID[m.Node], m.Role) != costConflict {
			next = append(next, m)
		}
	}
	fulls, wantedFulls := 0, 0
	for _, m := range next {
		fulls += oneIf(m.Role == Full)
	}
	for _, m := range wanted {
		wantedFulls += oneIf(m.Role == Full)
	}
	for _, wantsStay := range []bool{true, false} {
		for _, m := range w.row.Members {
			if fulls < wantedFulls && m.Role == Full && t.live(m) && t.stays(m) == wantsStay && !slices.ContainsFunc(next, m.SamePlace) {
				next = append(next, m)
				fulls++
			}
		}
	}
	if fulls == 0 {
		return nil
	}
	return next
}

// sameMembers reports whether both have the same replicas with the same roles. One with
// raft id 0 is not there yet.
func sameMembers(a, b []Member) bool {
	if len(a) != len(b) {
		return false
	}
	for _, m := range a {
		if !slices.Contains(b, m) {
			return false
		}
	}
	return true
}

// planCreation creates the map once enough nodes are there. Where a node has seen a
// map before, the store has lost it: nothing is created over it.
func planCreation(s *State, p *nodeSet) []Step {
	c := p.limits.Create
	if c.Settings.Validate() != nil || !ValidName(c.Cluster) || !ValidIncarnation(c.ID) {
		return nil
	}
	ready := 0
	for _, at := range p.all {
		if s.Nodes[at.id].Epoch > 0 {
			return nil
		}
		ready += oneIf(at.take)
	}
	wanted := max(c.InitialNodes, 1)
	if waited := s.FirstNodeMs > 0 && s.NowMs-s.FirstNodeMs >= c.WaitMs; waited && c.LeastNodes > 0 {
		wanted = min(wanted, c.LeastNodes)
	}
	if ready < wanted {
		return nil
	}
	m := p.newMap(&c)
	return []Step{{Kind: StepCreate, Reason: ReasonCreate, Map: &m}}
}

// NewMap returns the first map of a cluster, over the nodes of a state. It keeps to no bound, so
// that maps that are too large can be measured: Map.Validate and Map.Encode refuse those.
func NewMap(s State, l Limits) Map { return newNodeSet(&s, &l).newMap(&l.Create) }

func (p *nodeSet) newMap(c *Creation) Map {
	m := Map{Format: c.Settings.Format(), Cluster: c.Cluster, ID: c.ID, Epoch: 1, Settings: c.Settings, Rows: make([]Row, c.Settings.Shards)}
	t := &targets{nodeSet: p, replication: c.Settings.Replication, wishes: make([]wish, c.Settings.Shards), fullLoads: make([]int, len(p.all))}
	for shard := range m.Rows {
		t.wishes[shard] = wish{row: &m.Rows[shard], able: true, witness: none}
	}
	t.compute(false)
	for shard := range m.Rows {
		row := Row{Era: 1, Fresh: true}.WithIntended(t.members(&t.wishes[shard]))
		row.Members, row.Intended = row.Intended, nil
		m.Rows[shard] = row
	}
	return m
}

// retirements retires incarnations that no row names any more, when their node has
// another one or is gone.
func (p *nodeSet) retirements(s *State) []Step {
	named := map[string]bool{}
	for _, row := range s.Map.Rows {
		for _, list := range [][]Member{row.Members, row.Intended} {
			for _, m := range list {
				named[m.Node+"/"+m.Incarnation] = true
			}
		}
	}
	var steps []Step
	for i := range p.all {
		at := &p.all[i]
		if !at.live && !at.gone {
			continue // which disk comes back is not known
		}
		for _, known := range s.Incarnations[at.id] {
			if !known.Retired && !named[at.id+"/"+known.ID] && (at.gone || known.ID != at.incarnation) {
				steps = append(steps, Step{Kind: StepRetire, Reason: ReasonRetire, Node: at.id, Incarnation: known.ID})
			}
		}
	}
	return steps
}
