package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// hibernate ends the ticking of a group in which nothing happens. All members must be
// known to be active, as the next check of the quorum after waking looks at that.
func (g *group) hibernate() {
	if g.commit != g.log.last || g.handed != g.log.last || g.advanced != g.log.last || g.config.Joint() ||
		g.transferee != raft.None || len(g.reading.tokens) > 0 || len(g.proposed)+len(g.pending) > 0 {
		return
	}
	all, members := true, 0
	g.eachProgress(func(p MemberProgress) {
		members++
		if p.Member.RaftID == g.replica.RaftID {
			return
		}
		peer := g.shared.peers.get(p.Member.Node)
		all = all && p.Configured >= g.config.Index && p.Match == g.log.last && p.Active && p.Replicating && !peer.silent
	})
	if !all || members != len(g.config.Members) {
		return
	}
	g.hibernating = true
	g.sendToMembers(envelope.Hibernate, g.commit)
	g.log.evict(g.advanced, evictAll)
}

// followIntoHibernation stops ticking, as its leader has, if this replica has all that it has.
func (g *group) followIntoHibernation(m *envelope.Message) {
	g.wake()
	if m.Term != g.term || m.From != g.lead || g.state != raft.StateFollower || g.log.last != m.Index || g.installing != nil {
		return
	}
	if g.commit < m.Index {
		_ = g.node.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(m.To), From: new(m.From),
			Term: new(m.Term), Commit: new(m.Index)})
		g.mark()
	}
	g.hibernating, g.elapsed = true, 0
	g.log.evict(g.advanced, evictAll)
}
