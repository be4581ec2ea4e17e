package commit

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// quarantined is what a data folder has of a replica that may not go on: the log may lack
// what it has acknowledged. Its data is kept until the group is known to go on without
// it, or goes on from it: see shardmap.Row.Era.
type quarantined struct {
	state    replica.GroupState
	summary  replica.LogSummary
	newestMs int64 // see shardmap.Copy
}

func (r *quarantined) self() shardmap.Member {
	m, _ := selfOf(&r.state)
	return m
}

// selfOf finds the replica itself in its configuration.
func selfOf(state *replica.GroupState) (shardmap.Member, bool) {
	for _, list := range [2][]shardmap.Member{state.Configuration.Members, state.Configuration.Leaving} {
		for _, m := range list {
			if m.RaftID == state.RaftID {
				return m, true
			}
		}
	}
	return shardmap.Member{}, false
}

// decidesAlone reports whether the replica is its group's only member: there is nobody who
// could know better what its log has lost. A learner could, as it was told what is committed.
func decidesAlone(state *replica.GroupState) bool {
	c := &state.Configuration
	return len(c.Voters) == 1 && c.Voters[0] == state.RaftID && len(c.Outgoing)+len(c.Learners)+len(c.LearnersNext) == 0
}

// Doubt decides whether the log may lack what replicas here have told others, and returns why;
// nil: it has all. lost says why it may have lost its end, if so. With a reason the data
// folder has to become another incarnation, in which those replicas are quarantined.
func (r *Recovery) Doubt(lost error) error {
	r.tailLost = lost != nil
	lost = r.doubts(lost)
	r.doubted = lost != nil
	return lost
}

// doubts returns why the log may lack what replicas here have told others.
func (r *Recovery) doubts(lost error) error {
	applied := r.engine.AppliedIndexes() // with what was replayed
	for shard := range r.groups {
		g := &r.groups[shard]
		switch {
		case !g.known && g.spent == 0 && applied[shard] > 0:
			return fmt.Errorf("it has data of shard %d, and not what its group has agreed on", shard)
		case !g.known || decidesAlone(&g.state):
		case lost != nil:
			return lost
		case g.lacks():
			return fmt.Errorf("it lacks entries of shard %d", shard)
		}
	}
	return nil
}

// lacks reports whether entries are missing between the truncation and the last one.
func (g *recoveredGroup) lacks() bool {
	needed := g.state.Truncated.Index + 1
	return g.hole > needed || len(g.runs) > 0 && g.runs[0].First > needed
}

// restore adds to the host the groups that the log knows, and drops what the engine has
// of shards whose replica was removed before the last end could do so.
func (m *Machine) restore(r *Recovery) error {
	for shard := range r.groups {
		g := &r.groups[shard]
		m.spent[shard] = g.spent
		if g.known && r.doubted && len(g.state.Configuration.Voters) == 0 {
			g.known, m.spent[shard] = false, g.state.RaftID // it may have acknowledged entries without knowing its group
		}
		if !g.known {
			if err := m.restoreUnknown(r, uint16(shard)); err != nil {
				return err
			}
		}
		if !g.known {
			continue
		}
		if err := m.checkOwner(&g.state); err != nil {
			return err
		}
		// In a folder that has become another incarnation one that decides alone waits for the map
		// as well: others take its place for lost, and it would lead under a name that nobody uses.
		self, ok := selfOf(&g.state)
		renewed := ok && self.Incarnation != m.config.Host.Incarnation
		alone := decidesAlone(&g.state) && !renewed
		if alone && g.lacks() { // entries of a group with a single voter are nobody else's concern
			g.state.Truncated = replica.Position{Index: g.last, Term: g.state.Term}
			g.runs, g.changes = nil, nil
		}
		if alone && r.tailLost {
			g.state.Era++ // ids that routers learnt from the lost end may be given to other series
		}
		m.newestMs[shard] = g.newestMs
		summary := replica.LogSummary{Last: g.last, Runs: g.runs, Changes: g.changes, Applied: m.dispatched[shard]}
		if renewed {
			q := &quarantined{g.state, summary, g.newestMs}
			q.passOver(r.index.shards[shard].unindexed())
			m.quarantined[uint16(shard)] = q
			continue
		}
		if err := m.host.Restore(g.state, summary); err != nil {
			return fmt.Errorf("restore the group of shard %d: %w", shard, err)
		}
	}
	if len(m.quarantined) > 0 {
		m.config.Logger.Warn("the log may lack what replicas here have acknowledged; they are kept until their groups go on without them", "shards", len(m.quarantined))
	}
	return nil
}

// restoreUnknown ends what was begun with a shard of which the log has no replica. If
// there is data that nobody has removed, the log was damaged. A node that is in no
// cluster goes on with it: what its log says of its groups is always the same.
func (m *Machine) restoreUnknown(r *Recovery, shard uint16) error {
	g := &r.groups[shard]
	switch {
	case m.dispatched[shard] == 0:
	case m.spent[shard] > 0:
		if err := r.engine.DropShard(shard, uint64(r.log.End())); err != nil {
			return err
		}
		m.dispatched[shard] = 0
	case m.config.Standalone:
		m.config.Logger.Error("the log has lost the state of a shard's group, which goes on with what was applied", "shard", shard)
		at := replica.Position{Index: max(m.dispatched[shard], g.last), Term: 1}
		if k := len(g.runs); k > 0 {
			at.Term = g.runs[k-1].Term
		}
		self := m.Self()
		*g = recoveredGroup{known: true, last: at.Index, state: replica.GroupState{
			Replica: replica.Replica{Shard: shard, RaftID: self.RaftID, Era: StandaloneEra, Role: self.Role},
			Term:    at.Term, Vote: self.RaftID, Commit: at.Index, Truncated: at,
			Configuration: replica.Configuration{Members: []shardmap.Member{self}, Voters: []uint64{self.RaftID}},
		}}
	default:
		m.config.Logger.Error("the log has lost the state of a shard's group; its data stays on disk and is not served", "shard", shard)
		m.unclaimed[shard] = true
	}
	return nil
}

// passOver makes the log of a quarantined replica begin behind what is applied of the entries that are not indexed:
// while its group had one voter they were not kept for others, and the log goes without them (see
// Machine.giveUpUnindexed). Were they still asked for, the next start would find that they lack.
func (r *quarantined) passOver(unindexed uint64) {
	log, at := &r.summary, min(r.summary.Applied, r.summary.Last, unindexed)
	if at <= r.state.Truncated.Index || len(log.Runs) == 0 || log.Runs[0].First > at+1 {
		return
	}
	runs := slices.Clone(log.Runs)
	for len(runs) > 1 && runs[1].First <= at {
		runs = runs[1:]
	}
	r.state.Truncated = replica.Position{Index: at, Term: runs[0].Term}
	if len(runs) > 1 && runs[1].First == at+1 {
		runs = runs[1:]
	}
	runs[0].First = at + 1
	if at == log.Last {
		runs = nil
	}
	log.Runs = runs
}

// StandaloneEra is the era of all groups of a node that is in no cluster.
const StandaloneEra = 1

// Self returns this node as the member of its groups while it is in no cluster.
func (m *Machine) Self() shardmap.Member {
	return shardmap.Member{Node: m.config.Host.Node, Incarnation: m.config.Host.Incarnation, RaftID: 1, Role: shardmap.Full}
}

// checkOwner refuses a data folder that another node has written: its replicas are that
// node's.
func (m *Machine) checkOwner(state *replica.GroupState) error {
	for _, member := range state.Configuration.Members {
		if member.RaftID == state.RaftID && member.Node != m.config.Host.Node {
			return fmt.Errorf("%w: the data folder is of node %q, this is %q", ErrForeign, member.Node, m.config.Host.Node)
		}
	}
	return nil
}

// Quarantined returns the number of replicas that take no part.
func (m *Machine) Quarantined() int { return len(m.quarantined) }
