package replica

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// peerUp takes it that a connection to node stands.
func (g *group) peerUp(node string) {
	if g.node != nil && g.state == raft.StateLeader && g.on(node) {
		g.wake()
	}
}

// peerDown takes it that what was under way to node is lost.
func (g *group) peerDown(node string) {
	if g.node == nil || g.state != raft.StateLeader {
		return
	}
	for _, m := range g.config.Members {
		if m.Node == node {
			g.unreachable(m.RaftID)
		}
	}
}

// peerSilent takes it that node has not been heard for too long, or was started anew: a
// group that relies on its beats wakes. What it led is given up, as an election timeout
// without a word from it would do.
func (g *group) peerSilent(node string) {
	switch {
	case g.node == nil:
	case g.state == raft.StateLeader:
		if g.hibernating && g.on(node) {
			g.wake()
		}
	case g.leaderNode() == node:
		g.wake()
		g.elapsed = max(g.elapsed, g.shared.config.ElectionTicks+g.extraTicks())
		g.quickCampaigns = quickCampaignsMax
		g.forgetIfDue()
		g.timeout = g.elapsed - g.extraTicks() + g.succession(node)
	}
}

// quickCampaignsMax is how many campaigns follow a leader's loss in short order. The first may
// come before the other voters have noticed it and would vote.
const quickCampaignsMax = 3

// succession returns the ticks that g waits when the leader's node is lost: everybody
// notices it at once, so they come one after the other, full voters before witnesses.
func (g *group) succession(lost string) int {
	const between = 3 // ticks, for an election
	rank := 0
	for _, m := range g.config.Members {
		if m.Role == shardmap.Full && m.Node != lost && (m.RaftID < g.replica.RaftID || g.witness()) {
			rank++
		}
	}
	return 1 + between*rank
}

// on reports whether a member of the group is on node.
func (g *group) on(node string) bool {
	there := func(m shardmap.Member) bool { return m.Node == node }
	return slices.ContainsFunc(g.config.Members, there) || slices.ContainsFunc(g.config.Leaving, there)
}

func (g *group) unreachable(id uint64) {
	defer g.contain()
	if g.node != nil {
		g.node.ReportUnreachable(id)
		g.mark()
	}
}

// unknownSender is a sender whose node the configuration does not tell.
type unknownSender struct {
	id   uint64
	node string
}

const unknownSendersMax = shardmap.MembersMax

// meet remembers where a raft id outside of the configuration is.
func (g *group) meet(id uint64, node string) {
	if _, known := g.config.member(id); known {
		return
	}
	g.unknownSenders = slices.DeleteFunc(g.unknownSenders, func(s unknownSender) bool { return s.id == id })
	if len(g.unknownSenders) == unknownSendersMax {
		g.unknownSenders = g.unknownSenders[1:]
	}
	g.unknownSenders = append(g.unknownSenders, unknownSender{id, node})
}

func (g *group) nodeOf(id uint64) string {
	if m, ok := g.config.member(id); ok {
		return m.Node
	}
	for _, s := range g.unknownSenders {
		if s.id == id {
			return s.node
		}
	}
	return ""
}

// route sends one of the library's messages.
func (g *group) route(from *pb.Message) {
	m := message{shard: g.replica.Shard, to: from.GetTo(), from: from.GetFrom(), term: from.GetTerm(),
		logTerm: from.GetLogTerm(), index: from.GetIndex(), commit: from.GetCommit(), reject: from.GetReject(),
		hint: from.GetRejectHint(), context: from.GetContext(), entries: from.GetEntries()}
	early := false
	switch from.GetType() {
	case pb.MsgApp:
		m.kind, early = typeApp, true
		if m.index == 0 && slices.Contains(g.config.Learners, m.to) {
			// An empty learner does not know the configuration that the log began with.
			g.sendSnapshot(m.to)
			return
		}
		if m.index == 0 {
			g.sendFirst(m.to)
		}
	case pb.MsgHeartbeat:
		m.kind, early = typeHeartbeat, true
	case pb.MsgSnap:
		g.sendSnapshot(m.to)
		return
	case pb.MsgAppResp:
		m.kind = typeAppResp
	case pb.MsgVote:
		m.kind = typeVote
	case pb.MsgVoteResp:
		m.kind = typeVoteResp
	case pb.MsgPreVote:
		m.kind = typePreVote
	case pb.MsgPreVoteResp:
		m.kind = typePreVoteResp
	case pb.MsgHeartbeatResp:
		m.kind, m.index = typeHeartbeatResp, g.configured
	case pb.MsgTimeoutNow:
		m.kind = typeTimeoutNow
	default:
		return // forwarded proposals and reads: the router finds the leader itself
	}
	g.send(&m, early)
}

func (g *group) send(m *message, early bool) {
	node := g.nodeOf(m.to)
	if node == "" || node == g.shared.config.Node {
		return
	}
	switch {
	case early || !g.holds():
		g.shared.peers.add(node, m, early)
	case len(g.hold.messages) < heldMessagesMax:
		g.hold.messages = append(g.hold.messages, heldMessage{node, *m})
	}
}

// sendToMembers sends a message of the Host's own to all members but this one.
func (g *group) sendToMembers(kind messageType, index uint64) {
	for _, list := range [2][]shardmap.Member{g.config.Members, g.config.Leaving} {
		for _, member := range list {
			if member.RaftID != g.replica.RaftID {
				g.sendOwn(kind, member.RaftID, index)
			}
		}
	}
}

func (g *group) sendOwn(kind messageType, to, index uint64) {
	g.send(&message{kind: kind, shard: g.replica.Shard, to: to, from: g.replica.RaftID, term: g.term, index: index}, false)
}
