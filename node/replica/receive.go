package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// take hands a message to its group.
func (g *group) take(m *message) {
	defer g.contain()
	fromLeader := m.kind == typeApp || m.kind == typeHeartbeat || m.kind == typeSnapshot || m.kind == typeHibernate
	if fromLeader && m.term >= g.term && g.state != raft.StateLeader {
		g.elapsed = 0
	}
	if m.kind == typeApp {
		g.told.hear(m.term, m.commit)
	}
	switch m.kind {
	case typeHibernate:
		g.followIntoHibernation(m)
		return
	case typeDurable:
		g.takeDurable(m)
		return
	case typeTrim:
		if m.term == g.term && m.from == g.lead {
			g.noteTrim(m.index)
		}
		return
	case typeTakeOver:
		g.takeOver(m)
		return
	case typeSnapshot:
		g.wake()
		g.takeSnapshot(m)
		return
	}
	if m.kind == typeHeartbeatResp && g.leads() && m.term == g.term {
		if said := g.trim.of(m.from, &g.config); said != nil {
			said.configured = max(said.configured, m.index)
		}
	}
	if g.state != raft.StateLeader || m.kind != typeHeartbeatResp || len(m.context) > 0 {
		g.wake()
	}
	if m.kind == typeApp && (g.installing != nil || m.index == 0 && len(g.config.Voters) == 0) {
		return // files are being swapped, or have to come first
	}
	if m.kind == typeApp && !g.takeEntries(m) {
		return // the leader sends it again
	}
	if (m.kind == typePreVote || m.kind == typeVote) && m.from == g.lead && g.lead != raft.None {
		g.forgetLeader() // a leader that campaigns has been started anew
	}
	if _, known := m.kind.ofLibrary(); !known {
		return
	}
	if m.kind == typeTimeoutNow && m.term == g.term {
		g.expectHeir(g.replica.RaftID)
	}
	// The library refuses stale messages with an error; there is nothing to do then.
	_ = g.node.Step(m.toRaft(g))
	g.mark()
}

// takeEntries reports whether a message from the leader may be taken, without the entries for which there is no
// room. Those that the log has need none, as does a message without any: the leader may not know of them, and
// decides nothing before.
func (g *group) takeEntries(m *message) bool {
	if g.full() {
		return false
	}
	known := g.log.known(m.entries)
	if known == len(m.entries) || g.shared.mayFollow(g, bytesOf(m.entries[known:]), m.term) {
		return true
	}
	m.entries = m.entries[:known]
	return known > 0
}

// bytesOf returns what entries cost when they are kept.
func bytesOf(entries []*pb.Entry) (n int) {
	for _, e := range entries {
		n += keptBytes(e)
	}
	return n
}

// incoming is one of the library's messages and what its fields point to, in one piece.
type incoming struct {
	pb.Message
	kind                                             pb.MessageType
	to, from, term, logTerm, index, commit, hintedAt uint64
	rejected                                         bool
}

func (m *message) toRaft(g *group) *pb.Message {
	in := &incoming{to: m.to, from: m.from, term: m.term, logTerm: m.logTerm, index: m.index, commit: m.commit}
	out := &in.Message
	out.Type, out.To, out.From, out.Term = &in.kind, &in.to, &in.from, &in.term
	out.LogTerm, out.Index, out.Commit = &in.logTerm, &in.index, &in.commit
	out.Context, out.Entries = m.context, m.entries
	if m.reject {
		in.rejected, in.hintedAt = true, m.hint
		out.Reject, out.RejectHint = &in.rejected, &in.hintedAt
	}
	if m.kind == typeHeartbeat && g.installing != nil {
		in.commit = 0
	}
	in.kind, _ = m.kind.ofLibrary()
	return out
}

// ofLibrary returns the library's type for one that travels.
func (t messageType) ofLibrary() (pb.MessageType, bool) {
	switch t {
	case typeApp:
		return pb.MsgApp, true
	case typeAppResp:
		return pb.MsgAppResp, true
	case typeVote:
		return pb.MsgVote, true
	case typeVoteResp:
		return pb.MsgVoteResp, true
	case typePreVote:
		return pb.MsgPreVote, true
	case typePreVoteResp:
		return pb.MsgPreVoteResp, true
	case typeHeartbeat:
		return pb.MsgHeartbeat, true
	case typeHeartbeatResp:
		return pb.MsgHeartbeatResp, true
	case typeTimeoutNow:
		return pb.MsgTimeoutNow, true
	case typeSnapshot, typeHibernate, typeDurable, typeTrim, typeTakeOver:
	}
	return 0, false
}
