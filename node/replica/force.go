package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Force lets the shard's replica here go on alone, under a new raft id and in a new
// era, with all that its log has, be it nothing. It is for a group that has lost its majority for
// ever: the caller has made sure that no other replica goes on, and has chosen the
// log with the greatest last (term, index). What other logs had beyond it is lost.
// Errors: ErrNoGroup, ErrFault, ErrBusy (a Round is under way, or a sync that the group waits for), ErrArgument (an era or
// a raft id that is not new, or a witness).
func (h *Host) Force(shard uint16, raftID uint64, era uint32) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if h.waiting || g.hold.round != 0 {
		return fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	if era <= g.replica.Era || g.config.has(raftID) || raftID == 0 || g.witness() {
		return fmt.Errorf("%w: shard %d, era %d after %d, raft id %d", ErrArgument, shard, era, g.replica.Era, raftID)
	}
	h.failAll(g, &NotLeaderError{Shard: shard})
	if g.handed > g.log.last { // the log lost what the engine has: its indexes are spent
		g.log.restart(Position{Index: g.handed, Term: g.term})
	}
	self := shardmap.Member{Node: h.config.Node, Incarnation: h.config.Incarnation, RaftID: raftID, Role: shardmap.Full}
	g.replica.RaftID, g.replica.Era, g.replica.Role = raftID, era, shardmap.Full
	g.config = fresh([]shardmap.Member{self})
	// Changes that the log has, committed or not, are of the group that has ended.
	g.config.Index = g.log.last
	g.term++
	g.vote = raftID
	g.durables, g.transferee = nil, raft.None
	g.quiet, g.installing, g.installed, g.strangers, g.change = false, nil, false, nil, nil
	if g.handed >= g.log.last {
		h.beLone(g)
	} else {
		h.startNode(g, g.cursor)
		g.elapsed = g.timeout + h.slowest // it campaigns with the next tick, and wins
	}
	h.countPeers()
	h.logState(g, true)
	return g.fault
}
