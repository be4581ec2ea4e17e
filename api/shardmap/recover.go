package shardmap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotLost marks shards that cannot be made to go on from a copy: they can go on by
// themselves, or there is nothing to go on from.
var ErrNotLost = errors.New("the shard cannot go on from a copy")

// NodeCopies are all replicas in the data folder of a live node, by its own account.
type NodeCopies struct {
	Node        string
	Incarnation string   // of its data folder now
	Former      []string // incarnations that the folder had before, the last ones
	SyncMs      int64    // its log is on disk after so long at most; 0: no bound is known
	Copies      []Copy
}

// Copy is a replica in a data folder.
type Copy struct {
	Shard  uint16
	RaftID uint64
	Era    uint32
	Role   Role // what it was made for: a Witness has no data
	// Quarantined: its log may lack what it has acknowledged, so it never votes or answers
	// again under its raft id.
	Quarantined bool
	// Unclear: nobody can say yet what it has, as its files are being swapped, or ever,
	// as the log has lost it.
	Unclear bool
	Leads   bool
	Term    uint64 // of its last entry
	Index   uint64 // of its last entry
	// NewestMs is when the newest samples of it were written, by the clock of the leader
	// of that time; 0: not known.
	NewestMs    int64
	ConfigIndex uint64   // of the configuration that it has
	Members     []Member // of that; nil: it has none
	Leaving     []Member // who is no member after the change that is under way
	Outgoing    []uint64 // raft ids of the voters before that change; nil: none is under way
}

// FoundCopy is a copy with its place.
type FoundCopy struct {
	Node, Incarnation string
	Copy
}

// Recovery describes what is left of a shard without a leader, and what going on from
// that would mean.
type Recovery struct {
	Shard  uint16
	Copies []FoundCopy // of the group, by node
	// Missing are members that may have data, or know of data, that no copy here has.
	Missing []Member
	// Best is the copy to go on from: with the greatest era, term and index. nil: there
	// is none with data.
	Best *FoundCopy
	// Electable reports that a majority is there of which one knows the configuration, or the copy that a
	// row names alone by M6, so that a leader is to be expected. Only one who sees that none comes may let the shard
	// go on all the same.
	Electable bool
	// Lost reports that no majority can come back, whoever does: too many have lost their
	// vote for ever, or all who knew the configuration have.
	Lost bool
	// Empty notes that the group never had data: all who could have some have none.
	Empty bool
	// LossMsMax bounds how long before its end a write may have been answered that
	// Best lacks; 0: nothing bounds it. Going on in spite of Missing is not bounded.
	LossMsMax int64
	// Era and RaftID are greater than all that were ever used in the shard.
	Era    uint32
	RaftID uint64
	home   FoundCopy // where an empty group begins
}

// Automatic reports whether the shard may go on from Best without a person's word: all
// who may have data are there, and without a new era nobody could ever go on.
func (r *Recovery) Automatic() bool {
	return r.Lost && !r.Electable && len(r.Missing) == 0 && (r.Best != nil || r.Empty)
}

// Recoveries looks for the shards that have no leader, by what all live nodes say. It is a pure function. Of a node that did not
// answer nothing is known, so its replicas count as missing.
func Recoveries(m *Map, nodes []NodeCopies) []Recovery {
	var out []Recovery
	for shard := range m.Rows {
		s := survey{shard: uint16(shard), row: &m.Rows[shard], nodes: nodes}
		if r, needed := s.recovery(); needed {
			out = append(out, r)
		}
	}
	return out
}

// survey is what is known of one shard.
type survey struct {
	shard  uint16
	row    *Row
	nodes  []NodeCopies
	copies []FoundCopy
	era    uint32 // the newest of which there is a copy
}

func (s *survey) recovery() (r Recovery, needed bool) {
	s.collect()
	leader := s.leader()
	if leader != nil && !misnamed(leader) {
		return r, false
	}
	r = Recovery{Shard: s.shard, Copies: s.copies, Era: max(s.row.Era, s.era) + 1, RaftID: s.raftIDLast() + 1}
	if leader != nil { // it is alone: it needs nobody, but the map cannot name it
		r.Best, r.Lost, r.LossMsMax = leader, true, s.syncMs()
		return r, true
	}
	may, here := s.majorities()
	r.Lost, r.Electable = !may, here || s.begins()
	r.Missing = s.missing()
	r.Best = s.best()
	if r.Best == nil && len(r.Missing) == 0 && s.row.Fresh && len(s.nodes) > 0 {
		r.Empty = true
	}
	if len(r.Missing) == 0 {
		r.LossMsMax = s.syncMs()
	}
	r.home = s.home()
	return r, true
}

// collect finds the copies, those of the newest era first.
func (s *survey) collect() {
	for _, n := range s.nodes {
		for _, c := range n.Copies {
			if c.Shard == s.shard {
				s.copies = append(s.copies, FoundCopy{Node: n.Node, Incarnation: n.Incarnation, Copy: c})
				if len(c.Members) > 0 {
					s.era = max(s.era, c.Era)
				}
			}
		}
	}
	slices.SortStableFunc(s.copies, func(a, b FoundCopy) int { return cmp.Compare(a.Node, b.Node) })
}

// leader returns the copy that leads in the newest era.
func (s *survey) leader() *FoundCopy {
	for i := range s.copies {
		if c := &s.copies[i]; c.Leads && c.Era == s.era && c.Era >= s.row.Era {
			return c
		}
	}
	return nil
}

// misnamed reports whether a lone leader goes by an incarnation that its data folder has
// no more: other replicas of the folder had to make it another one.
func misnamed(c *FoundCopy) bool {
	return len(c.Members) == 1 && c.Members[0].RaftID == c.RaftID && c.Members[0].Incarnation != c.Incarnation
}

// node returns what a node reports; nil: it reports nothing.
func (s *survey) node(id string) *NodeCopies {
	for i := range s.nodes {
		if s.nodes[i].Node == id {
			return &s.nodes[i]
		}
	}
	return nil
}

// copyOf finds the copy of a member.
func (s *survey) copyOf(m Member) *FoundCopy {
	for i := range s.copies {
		if c := &s.copies[i]; c.Node == m.Node && c.RaftID == m.RaftID {
			return c
		}
	}
	return nil
}

// holdsNothing reports whether it is certain that a member without a copy has nothing: its
// data folder is there, and never had the replica or has ended it.
func (s *survey) holdsNothing(m Member) (nothing, former bool) {
	n := s.node(m.Node)
	if n == nil || slices.ContainsFunc(n.Copies, func(c Copy) bool { return c.Shard == s.shard && c.Unclear }) {
		return false, false
	}
	former = slices.Contains(n.Former, m.Incarnation)
	return former || n.Incarnation == m.Incarnation, former
}

// newest returns the newest configuration that a copy has: its members with those that
// leave, and its voters; from the map if no copy knows one.
func (s *survey) newest() (members []Member, lists [][]uint64) {
	var of *FoundCopy
	for i := range s.copies {
		c := &s.copies[i]
		if len(c.Members) > 0 && c.Era == s.era && (of == nil || c.ConfigIndex > of.ConfigIndex) {
			of = c
		}
	}
	members, outgoing := s.row.Members, []uint64(nil)
	if of != nil {
		members, outgoing = slices.Concat(of.Members, of.Leaving), of.Outgoing
	}
	var voters []uint64
	for _, m := range members {
		if m.Role.Votes() && (of == nil || slices.Contains(of.Members, m)) {
			voters = append(voters, m.RaftID)
		}
	}
	lists = [][]uint64{voters}
	if len(outgoing) > 0 {
		lists = append(lists, outgoing)
	}
	return members, lists
}

// majorities reports whether the voters of the newest configuration may have a majority that
// elects a leader, should all come back that can, and whether those that are there have one.
func (s *survey) majorities() (may, here bool) {
	members, lists := s.newest()
	may, here = true, true
	mayLead := s.knows()
	leadHere := mayLead
	for _, voters := range lists {
		able, present := 0, 0
		for _, id := range voters {
			at := slices.IndexFunc(members, func(m Member) bool { return m.RaftID == id })
			if at < 0 {
				able++
				mayLead = true
				continue
			}
			c, n := s.copyOf(members[at]), s.node(members[at].Node)
			_, former := s.holdsNothing(members[at])
			there := n != nil && n.Incarnation == members[at].Incarnation
			fresh := c == nil && s.row.Fresh && there // it is about to be made, with the configuration
			able += oneIf(c != nil && !c.Quarantined || c == nil && !former)
			present += oneIf(c != nil && !c.Quarantined || fresh)
			mayLead = mayLead || fresh || c == nil && !former && !there
			leadHere = leadHere || fresh
		}
		may = may && 2*able > len(voters)
		here = here && 2*present > len(voters)
	}
	return may && mayLead, here && leadHere
}

// knows reports whether a copy that is there may lead. One that came late to a fresh group votes, but is
// told the configuration by a leader, and never campaigns before: such copies alone wait for each other.
func (s *survey) knows() bool {
	return slices.ContainsFunc(s.copies, func(c FoundCopy) bool {
		return !c.Quarantined && (c.Unclear || len(c.Members) > 0 && c.Era == s.era)
	})
}

// begins reports whether the row lets the shard go on from a copy that is there and has not
// taken it up yet.
func (s *survey) begins() bool {
	return s.row.Era > s.era && len(s.row.Members) == 1 && slices.ContainsFunc(s.copies, func(c FoundCopy) bool {
		m := &s.row.Members[0]
		return c.Node == m.Node && c.Incarnation == m.Incarnation && c.Role != Witness && !c.Unclear && len(c.Members) > 0
	})
}

// missing returns the members of the row, or of any configuration of the newest era, that
// may have data and of which nothing is known. A learner counts: it may have got its vote.
func (s *survey) missing() (missing []Member) {
	lists := [][]Member{s.row.Members, s.row.Intended}
	for i := range s.copies {
		if c := &s.copies[i]; c.Era == s.era {
			lists = append(lists, c.Members, c.Leaving)
		}
	}
	for _, m := range slices.Concat(lists...) {
		nothing, _ := s.holdsNothing(m)
		c := s.copyOf(m)
		if m.Role == Witness || nothing || c != nil && !c.Unclear || slices.ContainsFunc(missing, m.SameReplica) {
			continue
		}
		missing = append(missing, m)
	}
	slices.SortFunc(missing, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.RaftID, b.RaftID)) })
	return missing
}

// best returns the copy with data and the greatest era, term and index.
func (s *survey) best() *FoundCopy {
	var best *FoundCopy
	for i := range s.copies {
		c := &s.copies[i]
		if c.Role == Witness || c.Unclear || len(c.Members) == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(c.Era, best.Era), cmp.Compare(c.Term, best.Term), cmp.Compare(c.Index, best.Index)) > 0 {
			best = c
		}
	}
	return best
}

// home returns the place of a group that begins empty: a full voter's, if one is there. A
// node whose copy cannot be told yet, or ever, keeps that, so nothing begins there.
func (s *survey) home() FoundCopy {
	usable := func(n *NodeCopies) bool {
		return !slices.ContainsFunc(n.Copies, func(c Copy) bool { return c.Shard == s.shard && c.Unclear })
	}
	for _, m := range s.row.Members {
		if n := s.node(m.Node); n != nil && m.Role == Full && usable(n) {
			return FoundCopy{Node: n.Node, Incarnation: n.Incarnation}
		}
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; usable(n) {
			return FoundCopy{Node: n.Node, Incarnation: n.Incarnation}
		}
	}
	return FoundCopy{}
}

func (s *survey) raftIDLast() uint64 {
	last := s.row.RaftIDLast
	for i := range s.copies {
		c := &s.copies[i]
		last = max(last, c.RaftID)
		for _, m := range slices.Concat(c.Members, c.Leaving) {
			last = max(last, m.RaftID)
		}
	}
	return last
}

// syncMs bounds what a power cut took from the nodes that have copies; 0: nothing does.
func (s *survey) syncMs() (most int64) {
	for i := range s.copies {
		n := s.node(s.copies[i].Node)
		if n.SyncMs == 0 {
			return 0
		}
		most = max(most, n.SyncMs)
	}
	return most
}

// Recovered reports that a shard went on from one copy because its group had lost its
// majority, and what may be lost by that. It stays in the row.
type Recovered struct {
	Node      string // whose copy it was
	Ms        int64  // when, Unix time
	NewestMs  int64  `json:",omitempty"` // the newest samples that were left were written then; 0: not known
	LossMsMax int64  `json:",omitempty"` // see Recovery
}

// Recover is rule M6: the row that lets a shard go on from one copy alone. The caller
// has a person's word for it, or Automatic. Error: ErrNotLost, when there is no copy and
// the group is not known to be empty; beginEmpty says that it is to begin anew then.
func (r *Recovery) Recover(row Row, nowMs int64, beginEmpty bool) (Row, error) {
	at := r.Best
	if at == nil {
		if !r.Empty && !beginEmpty || r.home.Node == "" {
			return row, fmt.Errorf("%w: there is no copy of shard %d", ErrNotLost, r.Shard)
		}
		at = &r.home
	}
	next := row.Clone()
	next.Version++
	next.Era, next.RaftIDLast = r.Era, r.RaftID
	next.Fresh, next.Intended = r.Best == nil, nil
	next.Members = []Member{{Node: at.Node, Incarnation: at.Incarnation, RaftID: r.RaftID, Role: Full}}
	next.Recovered = &Recovered{Node: at.Node, Ms: nowMs, NewestMs: at.NewestMs, LossMsMax: r.LossMsMax}
	if r.Empty {
		next.Recovered = row.Recovered // nothing was there to be lost
	}
	return next, next.Validate()
}

// Recover returns the map after rules M6 and M1. What rows tell of earlier times makes room
// if the map would be too large. Errors: ErrNotLost, ErrMap.
func (m Map) Recover(r *Recovery, nowMs int64, beginEmpty bool) (Map, error) {
	if int(r.Shard) >= len(m.Rows) {
		return m, fmt.Errorf("%w: shard %d of %d", ErrMap, r.Shard, len(m.Rows))
	}
	row, err := r.Recover(m.Rows[r.Shard], nowMs, beginEmpty)
	if err != nil {
		return m, err
	}
	next := m.WithRow(r.Shard, row)
	if _, err := next.Encode(); err == nil {
		return next, nil
	}
	for shard := range next.Rows {
		next.Rows[shard].Recovered = nil
	}
	return next, next.Validate()
}
