package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// newGroup makes a group from its state and entries in the log. The library may have to
// start behind what the engine has applied, so that it sees all changes of the
// configuration that the logged state does not have yet.
func newGroup(shared *shared, state GroupState, log LogSummary) (*group, error) {
	if state.RaftID == 0 || state.Role < shardmap.Full || state.Role > shardmap.Learner {
		return nil, fmt.Errorf("%w: raft id %d, %v", ErrArgument, state.RaftID, state.Role)
	}
	g := &group{
		shared:  shared,
		replica: state.Replica, config: state.Configuration.clone(),
		term: state.Term, vote: state.Vote, applied: log.Applied,
		log: entryLog{shard: state.Shard, reader: shared.reader, truncated: state.Truncated,
			last: max(log.Last, state.Truncated.Index), runs: slices.Clone(log.Runs)},
	}
	g.log.tailBytes.total, g.backlog.bytes.total = &shared.heldBytes, &shared.heldBytes
	if err := g.log.check(); err != nil {
		return nil, err
	}
	g.configured = g.config.Index
	if g.swapped(&state.Installing) {
		g.logDue, g.syncDue = true, true
	}
	g.handed = max(log.Applied, g.log.truncated.Index)
	g.commit = min(max(state.Commit, g.handed), g.log.last)
	seen := min(g.handed, g.log.last)
	unseen := false
	for _, index := range log.Changes {
		if index > g.config.Index && index > g.log.truncated.Index && index <= g.log.last {
			seen, unseen = min(seen, index-1), true
		}
	}
	g.cursor, g.advanced = seen, seen
	g.timeout = g.drawTimeout()
	if !unseen && g.handed >= g.log.last && g.config.isOnlyMember(g.replica.RaftID) && g.replica.Role != shardmap.Witness {
		if g.handed > g.log.last { // the log lost what the engine has: its indexes are spent
			g.log.restart(Position{Index: g.handed, Term: g.term})
		}
		g.becomeSingle()
		if g.log.last > 0 || state.Commit > 0 {
			g.term++ // as an election would: a tail that was lost is not written again with the same term
			g.vote = g.replica.RaftID
			g.logDue, g.syncDue = true, true
		}
		return g, nil
	}
	g.startNode(seen)
	return g, g.fault
}

// swapped finishes a swap of files that was interrupted by a stop, and reports whether the
// group's state has changed. If the engine has the files of the snapshot, the log begins
// after it, unless the log has the snapshot's last entry and so goes on from it anyway:
// other entries of the old log up to there may never have been committed.
func (g *group) swapped(snapshot *SnapshotMeta) bool {
	if snapshot.Index == 0 || g.applied != snapshot.Index {
		return false
	}
	if g.logHas(snapshot.Position) {
		return false
	}
	g.log.restart(snapshot.Position)
	g.config = snapshot.Configuration.clone()
	g.replica.Era = snapshot.Era
	return true
}

// check validates the summary of a log, and drops terms of entries before the truncation.
// Errors: ErrState.
func (l *entryLog) check() error {
	for len(l.runs) > 0 && l.runs[len(l.runs)-1].First > l.last {
		return fmt.Errorf("%w: a term begins at %d, after the last entry %d", ErrState, l.runs[len(l.runs)-1].First, l.last)
	}
	for len(l.runs) > 1 && l.runs[1].First <= l.truncated.Index+1 {
		l.runs = l.runs[1:]
	}
	if l.last == l.truncated.Index {
		l.runs = nil
		return nil
	}
	if len(l.runs) == 0 || l.runs[0].First > l.truncated.Index+1 {
		return fmt.Errorf("%w: shard %d lacks entries after %d", ErrState, l.shard, l.truncated.Index)
	}
	l.runs[0].First = max(l.runs[0].First, l.truncated.Index+1)
	return nil
}

// startNode makes the library's node for g, to which entries up to seen count as applied.
func (g *group) startNode(seen uint64) {
	defer g.contain()
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        g.replica.RaftID,
		ElectionTick:              g.shared.config.ElectionTicks,
		HeartbeatTick:             g.shared.config.HeartbeatTicks,
		Storage:                   &storage{g},
		Applied:                   max(seen, g.log.truncated.Index),
		MaxSizePerMsg:             uint64(g.shared.config.MessageBytesMax),
		MaxCommittedSizePerReady:  uint64(g.shared.config.ApplyBytesMax),
		MaxUncommittedEntriesSize: uint64(g.shared.config.UncommittedBytesMax),
		MaxInflightMsgs:           g.shared.config.InflightMessagesMax,
		MaxInflightBytes:          uint64(g.shared.config.InflightBytesMax),
		CheckQuorum:               true,
		PreVote:                   true,
		Logger:                    libraryLogger{},
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
	})
	if err != nil {
		g.fault = fmt.Errorf("%w: shard %d: %w", ErrFault, g.replica.Shard, err)
		return
	}
	g.node, g.single, g.state, g.lead, g.forgot = node, false, raft.StateFollower, raft.None, false
	g.mark()
}

// becomeSingle makes g a group that agrees with itself. All that its log has is committed
// and given out.
func (g *group) becomeSingle() {
	g.single, g.hibernating, g.node = true, false, nil
	g.state, g.lead = raft.StateLeader, g.replica.RaftID
	g.allDone()
	g.log.evict(g.log.last, evictAll)
	g.backlog.forget()
	g.proposed, g.pending, g.trim.members, g.transferee = nil, nil, nil, raft.None
}

// takeRole sets the replica's role to the one that it has in the configuration. One that was
// made as a witness has no data: as a full voter it would answer as if what it lacks did
// not exist, so it stops instead.
func (g *group) takeRole() {
	m, ok := g.config.member(g.replica.RaftID)
	if !ok || m.Role == shardmap.Learner {
		return
	}
	if g.witness() && m.Role == shardmap.Full {
		panic(libraryFault("a witness, which has no data, was made a full voter"))
	}
	g.replica.Role = m.Role
}
