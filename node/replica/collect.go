package replica

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// collectNode fetches what the library wants done.
func (g *group) collectNode(round *Round) {
	defer g.contain()
	if g.forgot {
		// The library tells of no change if its leader is the one of the last Round again. Taken for
		// unknown it would not be given up, and this replica would vote for nobody else until it
		// campaigns, which one that takes itself for a learner never does.
		g.lead, g.forgot = g.node.BasicStatus().Lead, false
	}
	if !g.node.HasReady() {
		return
	}
	ready := g.node.Ready()
	g.shared.next.inRound = append(g.shared.next.inRound, g)
	led, term := g.state == raft.StateLeader, g.term
	mustLog, sync := g.noteState(&ready)
	if g.noteInstalled(ready.Snapshot) {
		mustLog, sync = true, true
	}
	if led && (g.state != raft.StateLeader || g.term != term) {
		g.lostLead()
	}
	if !led && g.state == raft.StateLeader {
		g.becameLeader()
	}
	g.noteEntries(ready.Entries, round)
	given := len(round.Committed)
	if g.handOut(ready.CommittedEntries, round) {
		mustLog, sync = true, true
	}
	if mustLog {
		g.logDue, g.syncDue = true, g.syncDue || sync
	}
	if g.holds() {
		g.hold.committed = append(g.hold.committed, round.Committed[given:]...)
		round.Committed = round.Committed[:given]
	}
	for _, state := range ready.ReadStates {
		g.readConfirmed(state)
	}
	if g.state == raft.StateLeader {
		g.nextRead()
	}
	for _, m := range ready.Messages {
		g.route(m)
	}
}

// noteState takes over what changed of the library's state, and reports whether that has
// to be logged. A commit alone is carried by later entries.
func (g *group) noteState(ready *raft.Ready) (mustLog, sync bool) {
	if hard := ready.HardState; !raft.IsEmptyHardState(hard) {
		voted := hard.GetVote() != g.vote && hard.GetVote() != raft.None && hard.GetVote() != g.replica.RaftID
		if voted {
			g.elapsed = 0
		}
		mustLog = hard.GetTerm() != g.term || hard.GetVote() != g.vote
		g.term, g.vote, g.commit = hard.GetTerm(), hard.GetVote(), hard.GetCommit()
	}
	if soft := ready.SoftState; soft != nil {
		g.lead, g.state = soft.Lead, soft.RaftState
	}
	return mustLog, mustLog
}

func (g *group) becameLeader() {
	g.idle, g.transferee, g.trim.members = 0, raft.None, nil
	g.ledSince, g.tookOver, g.askedUntil = g.shared.ticks, g.shared.ticks < g.askedUntil, 0
	g.proposed, g.pending = nil, nil
	g.failedTransfers, g.transferFrom = 0, 0
}

func (g *group) lostLead() {
	if g.transferee != raft.None && g.vote == g.transferee {
		g.expectHeir(g.transferee)
	}
	g.failAll(g.notLeader())
	g.transferee, g.trim.members = raft.None, nil
	g.elapsed, g.timeout = 0, g.drawTimeout()
}

// noteEntries takes entries into the log. Those that this leader proposed are met in
// the order of their proposals: nobody else appends in its term.
func (g *group) noteEntries(entries []*pb.Entry, round *Round) {
	g.log.append(entries)
	if len(entries) > 0 && (g.appended == 0 || entries[0].GetIndex() < g.appended) {
		g.appended = entries[0].GetIndex()
	}
	for _, e := range entries {
		kind, parts := fromRaft(e)
		round.Appends = append(round.Appends, Append{Shard: g.replica.Shard, Kind: kind, Term: e.GetTerm(),
			Index: e.GetIndex(), Commit: min(g.commit, e.GetIndex()-1), Parts: parts})
		ours := kind != KindEmpty && kind != KindChange && g.state == raft.StateLeader && e.GetTerm() == g.term
		if ours && len(g.proposed) > 0 {
			p := g.proposed[0]
			g.proposed = g.proposed[1:]
			g.pending = append(g.pending, placed{index: e.GetIndex(), term: e.GetTerm(), token: p.token})
		}
	}
}

// handOut returns committed entries to the appliers, and reports whether the configuration
// has changed.
func (g *group) handOut(entries []*pb.Entry, round *Round) (changed bool) {
	for _, e := range entries {
		kind, parts := fromRaft(e)
		index := e.GetIndex()
		if kind == KindChange && index > g.config.Index {
			g.applyChange(e)
			changed = true
		}
		g.cursor = index
		token := g.takeToken(index, e.GetTerm())
		if index <= g.handed {
			continue
		}
		g.handed = index
		if g.witness() {
			continue
		}
		c := Committed{Shard: g.replica.Shard, Kind: kind, Term: e.GetTerm(), Index: index, Token: token}
		if kind != KindChange {
			c.Parts = parts
		}
		if token != 0 {
			c.Copies = max(g.copies(index), len(g.config.Voters)/2+1) // a leader that was just removed knows less
		}
		round.Committed = append(round.Committed, c)
		g.backlog.add(index, keptBytes(e))
	}
	return changed
}

func (g *group) takeToken(index, term uint64) uint64 {
	for len(g.pending) > 0 && g.pending[0].index <= index {
		p := g.pending[0]
		g.pending = g.pending[1:]
		if p.index == index && p.term == term {
			return p.token
		}
	}
	return 0
}

// copies counts the voters known to have an entry in their logs.
func (g *group) copies(index uint64) int {
	n := 0
	g.eachProgress(func(p MemberProgress) {
		if p.Match >= index && p.Member.Role.Votes() {
			n++
		}
	})
	return n
}

// applyChange takes a committed change of the configuration into force.
func (g *group) applyChange(e *pb.Entry) {
	change := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.GetData(), change); err != nil {
		panic(libraryFault("a change of the configuration cannot be read: " + err.Error()))
	}
	state := g.node.ApplyConfChange(change)
	members, leaving := g.config.Members, []shardmap.Member(nil)
	if len(change.GetContext()) > 0 {
		d := envelope.Decoder{Rest: change.GetContext()}
		target := readMembers(&d)
		if d.Broken {
			panic(libraryFault("a change of the configuration has members that cannot be read"))
		}
		for _, m := range members {
			if len(state.GetVotersOutgoing()) > 0 && !slices.ContainsFunc(target, m.SameReplica) {
				leaving = append(leaving, m)
			}
		}
		members = target
	}
	g.config.adopt(e.GetIndex(), state, members, leaving)
	g.takeRole()
	if len(g.config.Voters) == 1 && !g.config.Joint() {
		g.reading.underWay = 0 // those who would have confirmed it are gone: it is asked again
	}
	g.wake()
	g.shared.membersChanged = true
}

// advanceNode notes in the library that the Round is written.
func (g *group) advanceNode() {
	defer g.contain()
	if g.node == nil {
		return
	}
	g.node.Advance(raft.Ready{})
	g.advanced, g.configured = g.cursor, g.config.Index
	keep := g.shared.cacheBytes()
	if g.hibernating || g.state != raft.StateLeader {
		keep = evictAll // nobody asks for them; and a few of them would keep the whole envelope that they came in
	}
	g.log.evict(g.advanced, keep)
	if g.node.HasReady() {
		g.mark()
		return
	}
	done := g.state == raft.StateLeader && g.commit == g.log.last && g.advanced == g.log.last
	if done && g.change == nil && g.config.isOnlyMember(g.replica.RaftID) && !g.witness() && len(g.reading.tokens) == 0 && len(g.proposed) == 0 {
		g.becomeSingle()
	}
}

// route translates a message of the library and sends it.
func (g *group) route(from *pb.Message) {
	m := envelope.Message{Shard: g.replica.Shard, To: from.GetTo(), From: from.GetFrom(), Term: from.GetTerm(),
		LogTerm: from.GetLogTerm(), Index: from.GetIndex(), Commit: from.GetCommit(), Reject: from.GetReject(),
		Hint: from.GetRejectHint(), Context: from.GetContext(), Entries: from.GetEntries()}
	early := false
	switch from.GetType() {
	case pb.MsgApp:
		m.Kind, early = envelope.App, true
		if m.Index == 0 && slices.Contains(g.config.Learners, m.To) {
			// An empty learner does not know the configuration that the log began with.
			g.sendSnapshot(m.To)
			return
		}
		if m.Index == 0 {
			g.sendConfiguration(m.To)
		}
	case pb.MsgHeartbeat:
		m.Kind, early = envelope.Heartbeat, true
	case pb.MsgSnap:
		g.sendSnapshot(m.To)
		return
	case pb.MsgAppResp:
		m.Kind = envelope.AppResp
	case pb.MsgVote:
		m.Kind = envelope.Vote
	case pb.MsgVoteResp:
		m.Kind = envelope.VoteResp
	case pb.MsgPreVote:
		m.Kind = envelope.PreVote
	case pb.MsgPreVoteResp:
		m.Kind = envelope.PreVoteResp
	case pb.MsgHeartbeatResp:
		m.Kind, m.Index = envelope.HeartbeatResp, g.configured
	case pb.MsgTimeoutNow:
		m.Kind, early = envelope.TimeoutNow, true // it promises nothing: any voter may campaign at any time
	default:
		return // forwarded proposals and reads: routers find the leader themselves
	}
	g.send(&m, early)
}
