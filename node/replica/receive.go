package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// take hands a message to its group.
func (g *group) take(m *envelope.Message) {
	defer g.contain()
	fromLeader := m.Kind == envelope.App || m.Kind == envelope.Heartbeat || m.Kind == envelope.Snapshot || m.Kind == envelope.Hibernate
	if fromLeader && m.Term >= g.term && g.state != raft.StateLeader {
		g.elapsed = 0
	}
	if m.Kind == envelope.App {
		g.told.hear(m.Term, m.Commit)
	}
	switch m.Kind {
	case envelope.Hibernate:
		g.followIntoHibernation(m)
		return
	case envelope.Durable:
		g.takeDurable(m)
		return
	case envelope.Trim:
		if m.Term == g.term && m.From == g.lead {
			g.noteTrim(m.Index)
		}
		return
	case envelope.TakeOver:
		g.takeOver(m)
		return
	case envelope.Snapshot:
		g.wake()
		g.takeSnapshot(m)
		return
	}
	if m.Kind == envelope.HeartbeatResp && g.leads() && m.Term == g.term {
		if said := g.trim.of(m.From, &g.config); said != nil {
			said.configured = max(said.configured, m.Index)
		}
	}
	if g.state != raft.StateLeader || m.Kind != envelope.HeartbeatResp || len(m.Context) > 0 {
		g.wake()
	}
	if m.Kind == envelope.App && (g.installing != nil || m.Index == 0 && len(g.config.Voters) == 0) {
		return // files are being swapped, or have to come first
	}
	if m.Kind == envelope.App && !g.takeEntries(m) {
		return // the leader sends it again
	}
	if (m.Kind == envelope.PreVote || m.Kind == envelope.Vote) && m.From == g.lead && g.lead != raft.None {
		g.forgetLeader() // a leader that campaigns has been started anew
	}
	if _, known := m.Kind.Library(); !known {
		return
	}
	if m.Kind == envelope.TimeoutNow && m.Term == g.term {
		g.expectHeir(g.replica.RaftID)
	}
	// The library refuses stale messages with an error; there is nothing to do then.
	_ = g.node.Step(g.toRaft(m))
	g.mark()
}

// takeEntries reports whether a message from the leader may be taken, without the entries for which there is no
// room. Those that the log has need none, as does a message without any: the leader may not know of them, and
// decides nothing before.
func (g *group) takeEntries(m *envelope.Message) bool {
	if g.full() {
		return false
	}
	known := g.log.known(m.Entries)
	if known == len(m.Entries) || g.shared.mayFollow(g, bytesOf(m.Entries[known:]), m.Term) {
		return true
	}
	m.Entries = m.Entries[:known]
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

// toRaft returns a message as the library has it.
func (g *group) toRaft(m *envelope.Message) *pb.Message {
	in := &incoming{to: m.To, from: m.From, term: m.Term, logTerm: m.LogTerm, index: m.Index, commit: m.Commit}
	out := &in.Message
	out.Type, out.To, out.From, out.Term = &in.kind, &in.to, &in.from, &in.term
	out.LogTerm, out.Index, out.Commit = &in.logTerm, &in.index, &in.commit
	out.Context, out.Entries = m.Context, m.Entries
	if m.Reject {
		in.rejected, in.hintedAt = true, m.Hint
		out.Reject, out.RejectHint = &in.rejected, &in.hintedAt
	}
	if m.Kind == envelope.Heartbeat && g.installing != nil {
		in.commit = 0
	}
	in.kind, _ = m.Kind.Library()
	return out
}
