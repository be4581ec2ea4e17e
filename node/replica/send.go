package replica

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// nodeOf returns the node of a raft id, or "" if it is not known.
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

// send queues a message for the node of its receiver. It waits if the group holds, unless it
// is early.
func (g *group) send(m *envelope.Message, early bool) {
	node := g.nodeOf(m.To)
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

// sendToMembers sends a message that is not of the library to all members but this one.
func (g *group) sendToMembers(kind envelope.Type, index uint64) {
	for _, list := range [2][]shardmap.Member{g.config.Members, g.config.Leaving} {
		for _, member := range list {
			if member.RaftID != g.replica.RaftID {
				g.sendOwn(kind, member.RaftID, index)
			}
		}
	}
}

// sendOwn sends a message that is not of the library.
func (g *group) sendOwn(kind envelope.Type, to, index uint64) {
	g.send(&envelope.Message{Kind: kind, Shard: g.replica.Shard, To: to, From: g.replica.RaftID, Term: g.term, Index: index}, false)
}
