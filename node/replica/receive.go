package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Receive takes an envelope from a node. The bytes belong to the Host from then on.
// Messages for groups or raft ids that are not here are dropped. Error: ErrEnvelope;
// messages before the first bad one have been taken.
func (h *Host) Receive(from string, envelope []byte) error {
	run, d, err := openEnvelope(envelope)
	if err != nil {
		return err
	}
	if at, known := h.findPeer(from); known {
		h.heardFrom(h.peers[at], run)
	}
	var m message
	for len(d.rest) > 0 {
		if d.message(&m); d.broken {
			return fmt.Errorf("%w: message of type %d", ErrEnvelope, m.kind)
		}
		g := h.group(m.shard)
		if g == nil || g.node == nil || m.to != g.replica.RaftID {
			continue
		}
		g.meet(m.from, from)
		h.take(g, &m)
	}
	return nil
}

// take gives a message to its group.
func (h *Host) take(g *group, m *message) {
	defer h.contain(g)
	fromLeader := m.kind == typeApp || m.kind == typeHeartbeat || m.kind == typeSnapshot || m.kind == typeQuiet
	if fromLeader && m.term >= g.term && g.state != raft.StateLeader {
		g.elapsed = 0
	}
	switch m.kind {
	case typeQuiet:
		h.takeQuiet(g, m)
		return
	case typeDurable:
		h.takeDurable(g, m)
		return
	case typeTrim:
		if m.term == g.term && m.from == g.lead {
			h.noteTrim(g, m.index)
		}
		return
	case typeSnapshot:
		h.wake(g)
		h.takeSnapshot(g, m)
		return
	}
	if g.state != raft.StateLeader || m.kind != typeHeartbeatResp || len(m.context) > 0 {
		h.wake(g)
	}
	if m.kind == typeApp && (g.installing != nil || m.index == 0 && len(g.config.Voters) == 0) {
		return // files are being swapped, or have to come first
	}
	if (m.kind == typePreVote || m.kind == typeVote) && m.from == g.lead && g.lead != raft.None {
		h.forgetLeader(g) // a leader that campaigns has been started anew
	}
	// The library refuses stale messages with an error; there is nothing to do then.
	_ = g.node.Step(m.toRaft(g))
	h.mark(g)
}

func (m *message) toRaft(g *group) *pb.Message {
	out := &pb.Message{To: new(m.to), From: new(m.from), Term: new(m.term), LogTerm: new(m.logTerm),
		Index: new(m.index), Commit: new(m.commit), Context: m.context, Entries: m.entries}
	if m.reject {
		out.Reject, out.RejectHint = new(true), new(m.hint)
	}
	switch m.kind {
	case typeApp:
		out.Type = pb.MsgApp.Enum()
	case typeAppResp:
		out.Type = pb.MsgAppResp.Enum()
	case typeVote:
		out.Type = pb.MsgVote.Enum()
	case typeVoteResp:
		out.Type = pb.MsgVoteResp.Enum()
	case typePreVote:
		out.Type = pb.MsgPreVote.Enum()
	case typePreVoteResp:
		out.Type = pb.MsgPreVoteResp.Enum()
	case typeHeartbeat:
		out.Type = pb.MsgHeartbeat.Enum()
		if g.installing != nil {
			out.Commit = new(uint64(0))
		}
	case typeHeartbeatResp:
		out.Type = pb.MsgHeartbeatResp.Enum()
	case typeTimeoutNow:
		out.Type = pb.MsgTimeoutNow.Enum()
	}
	return out
}
