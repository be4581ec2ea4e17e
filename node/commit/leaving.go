package commit

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// GroupView is the state of another node's replica of a shard, by its own account.
type GroupView struct {
	Era     uint32
	Index   uint64   // of the configuration
	RaftIDs []uint64 // of all replicas in it, those that leave included
	Members []shardmap.Member
}

// Question is a replica that the map does not name, or one that is quarantined: may it end?
type Question struct {
	Shard       uint16
	RaftID      uint64
	Era         uint32
	Index       uint64            // of its configuration
	Members     []shardmap.Member // who may know
	Quarantined bool              // it takes no part
	Place       shardmap.Member   // this node and its data folder, without role and raft id
}

// Gone reports whether a group that another replica describes goes on without this one.
func (q *Question) Gone(view *GroupView) bool {
	if view.Era != q.Era { // one that was made for a later era and has no group proves nothing
		return view.Era > q.Era && len(view.RaftIDs) > 0
	}
	// A majority without the quarantined replica has agreed on a configuration since: the
	// folder has this incarnation only since the replica is quarantined. That somebody leads
	// would prove nothing, as a leader that has lost its majority says so for a while.
	if q.Quarantined && slices.ContainsFunc(view.Members, q.Place.SamePlace) {
		return true
	}
	if slices.Contains(view.RaftIDs, q.RaftID) {
		return false
	}
	return view.Index > q.Index
}
