package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// wake lets g tick.
func (g *group) wake() {
	g.idle = 0
	if g.quiet {
		g.quiet = false
		g.mark()
	}
}

// fallQuiet ends the ticking of a group in which nothing happens. All members must be
// known to be active, as the next check of the quorum after waking looks at that.
func (g *group) fallQuiet() {
	if g.commit != g.log.last || g.handed != g.log.last || g.settled != g.log.last || g.config.Joint() ||
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
	g.quiet = true
	g.sendToMembers(typeQuiet, g.commit)
	g.log.evict(g.settled, evictAll)
}

// takeQuiet follows the leader into quiet if this replica has all that it has.
func (g *group) takeQuiet(m *message) {
	g.wake()
	if m.term != g.term || m.from != g.lead || g.state != raft.StateFollower || g.log.last != m.index || g.installing != nil {
		return
	}
	if g.commit < m.index {
		_ = g.node.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(m.to), From: new(m.from),
			Term: new(m.term), Commit: new(m.index)})
		g.mark()
	}
	g.quiet, g.elapsed = true, 0
	g.log.evict(g.settled, evictAll)
}
