package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

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
	lastHeir        uint64        // raft id to which handOver gave it last; 0: none
	refusedUntil    int           // tick before which a leader that takes no writes does not hand it over again
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

func (g *group) leads() bool { return g.single || g.node != nil && g.state == raft.StateLeader }

func (g *group) witness() bool { return g.replica.Role == shardmap.Witness }

func (g *group) leaderNode() string {
	if m, ok := g.config.member(g.lead); ok {
		return m.Node
	}
	return ""
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

// logHas reports whether the log has an entry.
func (g *group) logHas(at Position) bool {
	term, err := g.log.term(at.Index)
	return err == nil && term == at.Term
}

// wake makes g tick.
func (g *group) wake() {
	g.idle = 0
	if g.hibernating {
		g.hibernating = false
		g.mark()
	}
}

// eachProgress visits the members by raft id.
func (g *group) eachProgress(visit func(MemberProgress)) {
	if g.single {
		m, _ := g.config.member(g.replica.RaftID)
		visit(MemberProgress{Member: m, Match: g.commit, Durable: g.trim.own, Configured: g.configured, Active: true, Replicating: true})
		return
	}
	if g.node == nil {
		return
	}
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		m, ok := g.config.member(id)
		if !ok {
			m = shardmap.Member{RaftID: id, Role: shardmap.Learner}
		}
		p := MemberProgress{Member: m, Match: pr.Match, Active: pr.RecentActive,
			Replicating: pr.State == tracker.StateReplicate, NeedsSnapshot: pr.State == tracker.StateSnapshot}
		if id == g.replica.RaftID {
			p.Active, p.Durable, p.Configured = true, g.trim.own, g.configured
		}
		for _, d := range g.trim.members {
			if d.id == id {
				p.Durable, p.Configured = d.index, d.configured
			}
		}
		visit(p)
	})
}

// allDone notes that all of the log is written, committed and given out.
func (g *group) allDone() {
	g.commit, g.handed, g.cursor, g.advanced = g.log.last, g.log.last, g.log.last, g.log.last
}
