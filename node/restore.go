package node

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
)

// relic is what a data folder has of a replica that may not go on: the log may lack
// what it has acknowledged. Its data is kept until the group is known to go on without
// it, or goes on from it: see shardmap.Row.Era.
type relic struct {
	state    replica.GroupState
	summary  replica.LogSummary
	newestMs int64 // see shardmap.Copy
}

func (r *relic) self() shardmap.Member {
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

// decidesAlone says whether the replica is its group's only voter: there is nobody who
// could know better what its log has lost.
func decidesAlone(state *replica.GroupState) bool {
	c := &state.Configuration
	return len(c.Voters) == 1 && c.Voters[0] == state.RaftID && len(c.Outgoing) == 0
}

// doubts says whether the log may lack what replicas here have told others.
func (r *recoverer) doubts(lost error) error {
	for shard := range r.groups {
		g := &r.groups[shard]
		switch {
		case !g.known && g.spent == 0 && r.node.engine.AppliedIndexes()[shard] > 0:
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

// lacks says whether entries are missing between the truncation and the last one.
func (g *recoveredGroup) lacks() bool {
	return g.holes || len(g.runs) > 0 && g.runs[0].First > g.state.Truncated.Index+1
}

// restore gives the host the groups that the log knows, and drops what the engine has
// of shards whose replica was removed before the last end could do so.
func (l *loop) restore(n *Node, r *recoverer) error {
	for shard := range r.groups {
		g := &r.groups[shard]
		l.spent[shard] = g.spent
		if g.known && r.doubted && len(g.state.Configuration.Voters) == 0 {
			g.known, l.spent[shard] = false, g.state.RaftID // it may have acknowledged entries without knowing its group
		}
		if !g.known {
			if err := l.restoreUnknown(n, r, uint16(shard)); err != nil {
				return err
			}
		}
		if !g.known {
			continue
		}
		if err := n.checkOwner(&g.state); err != nil {
			return err
		}
		alone := decidesAlone(&g.state)
		if alone && g.lacks() { // entries of a lone group are nobody else's concern
			g.state.Truncated = replica.Position{Index: g.last, Term: g.state.Term}
			g.runs, g.changes = nil, nil
		}
		if alone && r.tailLost {
			g.state.Era++ // ids that routers learnt from the lost end may be given to other series
		}
		l.newestMs[shard] = g.newestMs
		summary := replica.LogSummary{Last: g.last, Runs: g.runs, Changes: g.changes, Applied: l.dispatched[shard]}
		if self, ok := selfOf(&g.state); ok && self.Incarnation != l.incarnation && !alone {
			l.relics[uint16(shard)] = &relic{g.state, summary, g.newestMs}
			continue
		}
		if err := l.host.Restore(g.state, summary); err != nil {
			return fmt.Errorf("restore the group of shard %d: %w", shard, err)
		}
	}
	if len(l.relics) > 0 {
		l.logger.Warn("the log may lack what replicas here have acknowledged; they are kept until their groups go on without them", "shards", len(l.relics))
	}
	return nil
}

// restoreUnknown ends what was begun with a shard of which the log has no replica. If
// there is data that nobody has removed, the log was damaged. A node that is in no
// cluster goes on with it: what its log says of its groups is always the same.
func (l *loop) restoreUnknown(n *Node, r *recoverer, shard uint16) error {
	g := &r.groups[shard]
	switch {
	case l.dispatched[shard] == 0:
	case l.spent[shard] > 0:
		if err := n.engine.DropShard(shard, uint64(n.log.End())); err != nil {
			return err
		}
		l.dispatched[shard] = 0
	case n.options.NodeID == aloneID:
		l.logger.Error("the log has lost the state of a shard's group, which goes on with what was applied", "shard", shard)
		at := replica.Position{Index: max(l.dispatched[shard], g.last), Term: 1}
		if k := len(g.runs); k > 0 {
			at.Term = g.runs[k-1].Term
		}
		self := l.aloneMember()
		*g = recoveredGroup{known: true, last: at.Index, state: replica.GroupState{
			Replica: replica.Replica{Shard: shard, RaftID: self.RaftID, Era: aloneEra, Role: self.Role},
			Term:    at.Term, Vote: self.RaftID, Commit: at.Index, Truncated: at,
			Configuration: replica.Configuration{Members: []shardmap.Member{self}, Voters: []uint64{self.RaftID}},
		}}
	default:
		l.logger.Error("the log has lost the state of a shard's group; its data stays on disk and is not served", "shard", shard)
		l.orphans[shard] = true
	}
	return nil
}

// placeRelic decides what becomes of a relic.
func (l *loop) placeRelic(shard uint16, row *shardmap.Row, r *relic) {
	self := r.self()
	named, settled := row.MemberOn(l.node, l.incarnation)
	switch {
	case settled && goesOnAlone(row, named, &r.state.Replica) && named.RaftID > l.spent[shard]:
		l.resurrect(shard, row.Era, named.RaftID, r)
	case settled && beginsAnew(row, &r.state.Replica):
		l.dismiss(shard)
	default: // the row may be older than the relic, and the one that a later era's names may never begin it: somebody has to be seen
		l.onLeaving(commit.Question{Shard: shard, RaftID: self.RaftID, Era: r.state.Era, Index: r.state.Configuration.Index, Members: row.Members,
			Quarantined: true, Place: shardmap.Member{Node: l.node, Incarnation: l.incarnation}})
	}
}

// goesOnAlone says whether a row lets its group go on from this one of its replicas: rule
// M6 of api/shardmap.
func goesOnAlone(row *shardmap.Row, named shardmap.Member, is *replica.Replica) bool {
	return row.Era > is.Era && len(row.Members) == 1 && !row.Fresh && named.RaftID != is.RaftID && is.Role != shardmap.Witness
}

// beginsAnew says whether a row that names a place alone lets its group begin without
// data there, in a later era, though it has a witness of an earlier one. No other replica
// could tell that witness to end.
func beginsAnew(row *shardmap.Row, is *replica.Replica) bool {
	return row.Era > is.Era && len(row.Members) == 1 && row.Fresh && is.Role == shardmap.Witness
}

// resurrect lets a group that has lost its majority for good go on from a relic: the
// map has named it as all that is left, in a new era.
func (l *loop) resurrect(shard uint16, era uint32, raftID uint64, r *relic) {
	err := l.host.Restore(r.state, r.summary)
	if err == nil {
		err = l.host.Force(shard, raftID, era)
	}
	if err != nil {
		l.logger.Error("a group cannot go on from what is left of it", "shard", shard, "error", err)
		return
	}
	delete(l.relics, shard)
	l.counts.recovered.Add(1)
	l.logger.Warn("a group goes on from what is left of it", "shard", shard, "era", era)
}

// dismiss gives up a relic: its group goes on without it.
func (l *loop) dismiss(shard uint16) {
	l.spent[shard] = max(l.spent[shard], l.relics[shard].state.RaftID)
	delete(l.relics, shard)
	l.places.shards[shard] = shardPlaces{}
	l.cleaning[shard] = true
	l.relog = true // the log says that it has ended before its data goes
	l.logger.Info("the group goes on without what was left of a replica; its data is dropped", "shard", shard)
	l.onRemoved(shard)
}
