package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// force makes g the only member of its group. See Host.Force.
func (g *group) force(raftID uint64, era uint32) error {
	if g.hold.round != 0 {
		return fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	if era <= g.replica.Era || g.config.has(raftID) || raftID == 0 || g.witness() {
		return fmt.Errorf("%w: shard %d, era %d after %d, raft id %d", ErrArgument, g.replica.Shard, era, g.replica.Era, raftID)
	}
	g.failAll(&NotLeaderError{Shard: g.replica.Shard})
	if g.handed > g.log.last { // the log lost what the engine has: its indexes are spent
		g.log.restart(Position{Index: g.handed, Term: g.term})
	}
	self := shardmap.Member{Node: g.shared.config.Node, Incarnation: g.shared.config.Incarnation, RaftID: raftID, Role: shardmap.Full}
	g.replica.RaftID, g.replica.Era, g.replica.Role = raftID, era, shardmap.Full
	g.config = fresh([]shardmap.Member{self})
	// Changes that the log has, committed or not, are of the group that has ended.
	g.config.Index = g.log.last
	g.term++
	g.vote = raftID
	g.trim.members, g.transferee = nil, raft.None
	g.hibernating, g.installing, g.installed, g.unknownSenders, g.change = false, nil, false, nil, nil
	if g.handed >= g.log.last {
		g.becomeSingle()
	} else {
		g.startNode(g.cursor)
		g.elapsed = g.timeout + g.shared.peers.slowest // it campaigns with the next tick, and wins
	}
	g.shared.membersChanged = true
	g.logState(true)
	return g.fault
}
