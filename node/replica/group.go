package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// group is one replica of a shard. It is either single, the only member of its Raft group,
// and commits by itself, or node is its instance of the Raft library.
type group struct {
	shared  *shared
	replica Replica
	config  Configuration
	log     entryLog

	// As of the last Round.
	term     uint64
	vote     uint64
	commit   uint64
	lead     uint64 // raft id of the leader; 0: not known
	forgot   bool   // lead was given up since; the library may have heard of it again
	state    raft.StateType
	handed   uint64 // last entry that was in Committed, or that the engine had applied at the start
	cursor   uint64 // last entry that the library returned as committed; less than handed while it repeats what the engine has
	advanced uint64 // cursor as of the last Advance

	configured uint64 // index of the configuration as of the last Advance
	applied    uint64 // last entry that the engine has applied

	single bool          // the only member, which needs no library to commit
	node   *raft.RawNode // nil if single or stopped
	fault  error         // why the group has stopped; nil: it has not
	dirty  bool          // in nextRound.dirty

	logDue, syncDue bool   // the next Round has to log the group's state, and sync it
	appended        uint64 // first entry that the Round being collected appends; 0: none
	hold            hold

	// The path of a single voter.
	proposals []proposal // for the next Round
	inFlight  int        // in the Round under way
	change    *pb.ConfChangeV2

	// The library's path.
	proposed []proposal // given to the library, not seen in its log yet
	pending  []placed   // in the log, not committed; by index
	reading  readQueue

	backlog backlog

	told            toldCommit
	elapsed         int // ticks since the leader was heard; of a follower
	timeout         int // elapsed at which it campaigns, without extraTicks
	quickCampaigns  int // how many of the next campaigns follow soon one after the other
	idle            int // ticks in which nothing happened; of a leader
	hibernating     bool
	askedUntil      int  // tick until which it counts as tookOver if it becomes leader
	ledSince        int  // tick at which it became leader
	tookOver        bool // it leads because it asked for that (askToLead)
	transferee      uint64
	heir            heir
	failedTransfers int           // in a row, of this leader
	transferFrom    int           // tick before which none is begun again
	installing      *SnapshotMeta // of the files that are being swapped; nil: none are
	announce        bool          // the next Round names the shard in Prepared
	installed       bool          // the files are in place
	trim            trim
	unknownSenders  []unknownSender
}

// toldCommit is the last commit index that a follower has heard from a leader. It may be
// beyond the end of the follower's log.
type toldCommit struct{ term, index uint64 }

// hear notes the commit index in a message of the leader of a term.
func (t *toldCommit) hear(term, index uint64) {
	switch {
	case term > t.term:
		*t = toldCommit{term, index}
	case term == t.term:
		t.index = max(t.index, index)
	}
}

type proposal struct {
	kind  uint8
	token uint64
	term  uint64 // in which the library took it
	parts [][]byte
	owned bool // parts are a copy
}

// own replaces the parts by a copy, since the caller may use their memory again.
func (p *proposal) own() {
	if !p.owned {
		p.parts, p.owned = [][]byte{slices.Concat(p.parts...)}, true
	}
}

// placed is a proposal of this replica whose entry is in the log and not committed.
type placed struct {
	index uint64
	term  uint64
	token uint64
}

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

func (g *group) leads() bool { return g.single || g.node != nil && g.state == raft.StateLeader }

func (g *group) witness() bool { return g.replica.Role == shardmap.Witness }

func (g *group) leaderNode() string {
	if m, ok := g.config.member(g.lead); ok {
		return m.Node
	}
	return ""
}

func (g *group) notLeader() error {
	err := &NotLeaderError{Shard: g.replica.Shard}
	if !g.leads() {
		err.Leader = g.successor()
	}
	return err
}

// durable returns the state to log.
func (g *group) durable() GroupState {
	s := GroupState{Replica: g.replica, Term: g.term, Vote: g.vote, Commit: g.commit,
		Truncated: g.log.truncated, Configuration: g.config.clone()}
	if g.installing != nil {
		s.Installing = *g.installing
		s.Installing.Configuration = g.installing.Configuration.clone()
	}
	return s
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

// contain is deferred around calls of the library. It recovers its panic, by which the
// library says that the log lacks what it was told to have, and stops only this group.
func (g *group) contain() {
	cause := recover()
	if cause == nil {
		return
	}
	if _, own := cause.(libraryFault); !own {
		if err, isError := cause.(error); isError {
			cause = fmt.Errorf("library: %w", err)
		}
	}
	g.fault = fmt.Errorf("%w: shard %d: %v", ErrFault, g.replica.Shard, cause)
	g.node, g.state, g.lead, g.single = nil, raft.StateFollower, raft.None, false
	g.failAll(g.fault)
}

// failAll fails all proposals and reads. Those that the library has taken may yet be
// committed, so they fail with ErrFate.
func (g *group) failAll(err error) {
	for _, p := range g.proposals {
		g.fail(p.token, err)
	}
	for _, p := range g.proposed {
		g.fail(p.token, ErrFate)
	}
	for _, p := range g.pending {
		g.fail(p.token, ErrFate)
	}
	g.proposals, g.proposed, g.pending = nil, nil, nil
	for _, token := range g.reading.drain() {
		g.fail(token, err)
	}
}

// storage implements raft.Storage on a group's log.
type storage struct{ g *group }

func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hard := &pb.HardState{Term: new(s.g.term), Vote: new(s.g.vote), Commit: new(s.g.commit)}
	return hard, s.g.config.confState(), nil
}

// Entries returns what there is room for (laggingReads), but without a bound what is not given out yet: after
// a start the library hands it out, and looks through it before it campaigns, and takes nothing for a fault.
func (s *storage) Entries(lo, hi, bytesMax uint64) ([]*pb.Entry, error) {
	bound := &s.g.shared.lagging
	if lo > s.g.advanced {
		bound = nil
	}
	return s.g.log.entries(lo, hi, bytesMax, bound)
}

func (s *storage) Term(index uint64) (uint64, error) { return s.g.log.term(index) }

func (s *storage) LastIndex() (uint64, error) { return s.g.log.last, nil }

func (s *storage) FirstIndex() (uint64, error) { return s.g.log.truncated.Index + 1, nil }

// Snapshot returns the truncation. A member goes on from any files that have it or more.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	if s.g.log.truncated.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		ConfState: s.g.config.confState(),
		Index:     new(s.g.log.truncated.Index),
		Term:      new(s.g.log.truncated.Term),
	}}, nil
}

// mark makes the next Ready collect from g.
func (g *group) mark() {
	if !g.dirty {
		g.dirty = true
		g.shared.next.dirty = append(g.shared.next.dirty, g)
	}
}

// logState makes the next Round log g's state, and sync it if told to.
func (g *group) logState(sync bool) {
	g.logDue, g.syncDue = true, g.syncDue || sync
	g.mark()
}

// fail ends a proposal or a read without success.
func (g *group) fail(token uint64, err error) {
	g.shared.next.failed = append(g.shared.next.failed, Failure{Shard: g.replica.Shard, Token: token, Err: err})
}
