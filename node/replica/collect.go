package replica

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// collect puts what g has to do into the Round.
func (h *Host) collect(g *group, round *Round) {
	g.appended = 0
	if g.hold.round == 0 {
		h.collectWork(g, round)
	}
	if g.logDue {
		state := g.durable()
		if g.appended > 0 {
			// The state stands before the entries. What they replace is not committed.
			state.Commit = min(state.Commit, g.appended-1)
		}
		round.States = append(round.States, state)
		round.Sync = round.Sync || g.syncDue
		if h.config.SyncLater && g.syncDue {
			h.holdFor(g, round.Number)
		}
		g.logDue, g.syncDue = false, false
		if g.announce && g.hold.round == 0 {
			g.announce = false
			round.Prepared = append(round.Prepared, g.replica.Shard)
		}
	}
	for i := range g.proposals {
		g.proposals[i].own() // it waits, and the driver uses its memory for the next ones
	}
}

// collectWork puts everything but g's state into the Round.
func (h *Host) collectWork(g *group, round *Round) {
	if g.lone && g.change != nil {
		h.leave(g, round)
	}
	switch {
	case g.lone:
		h.collectLone(g, round)
	case g.node != nil:
		h.collectNode(g, round)
	}
}

func (h *Host) advance(g *group) {
	if g.lone {
		g.advanceLone()
		return
	}
	h.advanceNode(g)
}

// collectNode fetches what the library wants done.
func (h *Host) collectNode(g *group, round *Round) {
	defer h.contain(g)
	if !g.node.HasReady() {
		return
	}
	ready := g.node.Ready()
	h.inRound = append(h.inRound, g)
	led, term := g.state == raft.StateLeader, g.term
	mustLog, sync := h.noteState(g, &ready)
	if h.noteInstalled(g, ready.Snapshot) {
		mustLog, sync = true, true
	}
	if led && (g.state != raft.StateLeader || g.term != term) {
		h.lostLead(g)
	}
	if !led && g.state == raft.StateLeader {
		h.becameLeader(g)
	}
	h.noteEntries(g, ready.Entries, round)
	given := len(round.Committed)
	if h.handOut(g, ready.CommittedEntries, round) {
		mustLog, sync = true, true
	}
	if mustLog {
		g.logDue, g.syncDue = true, g.syncDue || sync
	}
	if h.holds(g) {
		g.hold.committed = append(g.hold.committed, round.Committed[given:]...)
		round.Committed = round.Committed[:given]
	}
	for _, state := range ready.ReadStates {
		h.readConfirmed(g, state)
	}
	if g.state == raft.StateLeader {
		h.nextRead(g)
	}
	for _, m := range ready.Messages {
		h.route(g, m)
	}
}

// noteState takes over what changed of the library's state, and reports whether that has
// to be logged. A commit alone is carried by later entries.
func (h *Host) noteState(g *group, ready *raft.Ready) (mustLog, sync bool) {
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

func (h *Host) becameLeader(g *group) {
	g.idle, g.transferee, g.durables = 0, raft.None, nil
	g.ledSince, g.tookOver, g.askedUntil = h.ticks, h.ticks < g.askedUntil, 0
	g.proposed, g.pending = nil, nil
}

func (h *Host) lostLead(g *group) {
	h.failAll(g, g.notLeader())
	g.transferee, g.durables = raft.None, nil
	g.elapsed, g.timeout = 0, h.drawTimeout(g)
}

// noteEntries takes entries into the log. Those that this leader proposed are met in
// the order of their proposals: nobody else appends in its term.
func (h *Host) noteEntries(g *group, entries []*pb.Entry, round *Round) {
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

// handOut returns committed entries to the appliers, and says whether the configuration
// has changed.
func (h *Host) handOut(g *group, entries []*pb.Entry, round *Round) (changed bool) {
	for _, e := range entries {
		kind, parts := fromRaft(e)
		index := e.GetIndex()
		if kind == KindChange && index > g.config.Index {
			h.applyChange(g, e)
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
		g.backlog = append(g.backlog, sized{index, keptBytes(e)})
		g.backlogBytes += keptBytes(e)
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
func (h *Host) applyChange(g *group, e *pb.Entry) {
	change := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.GetData(), change); err != nil {
		panic(libraryFault("a change of the configuration cannot be read: " + err.Error()))
	}
	state := g.node.ApplyConfChange(change)
	members, leaving := g.config.Members, []shardmap.Member(nil)
	if len(change.GetContext()) > 0 {
		d := decoder{rest: change.GetContext()}
		target := d.members()
		if d.broken {
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
	h.wake(g)
	h.countPeers()
}

// takeRole gives the replica the role that it has in the configuration. One that was
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

// advanceNode tells the library that the Round is written.
func (h *Host) advanceNode(g *group) {
	defer h.contain(g)
	if g.node == nil {
		return
	}
	g.node.Advance(raft.Ready{})
	g.settled, g.configured = g.cursor, g.config.Index
	keep := h.config.CacheBytesMax
	if g.quiet {
		keep = evictAll
	}
	g.log.evict(g.settled, keep)
	if g.node.HasReady() {
		h.mark(g)
		return
	}
	done := g.state == raft.StateLeader && g.commit == g.log.last && g.settled == g.log.last
	if done && g.change == nil && g.config.lone(g.replica.RaftID) && !g.witness() && len(g.reading.tokens) == 0 && len(g.proposed) == 0 {
		h.beLone(g)
	}
}
