package replica

import (
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// peerUp handles a new connection to node: a hibernating leader wakes, so that it sends.
func (g *group) peerUp(node string) {
	if g.node != nil && g.state == raft.StateLeader && g.on(node) {
		g.wake()
	}
}

// peerDown handles the loss of the connection to node, and of all messages under way to it.
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

// peerSilent handles a node that is silent or has restarted. A hibernating group that relies
// on its beats wakes. A leader on it is given up as after an election timeout.
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

// quickCampaignsMax is how many campaigns follow the loss of a leader in short order. One may
// not be enough, as it may come before the other voters have noticed the loss.
const quickCampaignsMax = 3

// succession returns the ticks that g waits with its campaign when the leader's node is lost.
// All voters notice that at once, and would split the votes if they did not take turns: full
// voters by raft id, then witnesses.
func (g *group) succession(lost string) int {
	const between = 3 // ticks in which an election ends
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

// unreachable reports to the library that messages to a member were lost.
func (g *group) unreachable(id uint64) {
	defer g.contain()
	if g.node != nil {
		g.node.ReportUnreachable(id)
		g.mark()
	}
}

// unknownSender is a replica that is not in the configuration, and where it is.
type unknownSender struct {
	id   uint64
	node string
}

const unknownSendersMax = shardmap.MembersMax

// meet notes the node of a replica that is not in the configuration, so that it can be
// answered: this replica may not know the newest configuration yet.
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
