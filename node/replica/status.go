package replica

import (
	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// GroupStatus is the state of a replica and its group, as of the last Round.
type GroupStatus struct {
	Replica
	Leads         bool
	Leader        string // node; empty: not known
	SingleVoter   bool   // and no learner
	Hibernating   bool
	Fault         error // not nil: the replica has stopped and has to be replaced
	Term          uint64
	Commit        uint64
	Told          uint64 // the leader of this term has said that entries up to here are committed; as a follower
	Handed        uint64 // given out as Committed
	Applied       uint64
	Last          uint64 // entry in the log
	LastTerm      uint64
	Heard         int // ticks since the leader was heard, by its node if the group hibernates; 0 at the leader
	Truncated     Position
	Trim          uint64 // entries up to here are durable in the engines of all full voters
	Installing    bool
	Syncing       bool // what it sends is not durable yet
	TookOver      bool // it leads because it has asked to, not long ago: a router did not reach the leader before
	Transferring  bool
	Configuration Configuration
	Progress      []MemberProgress // of all members, by raft id; only of a leader
}

// MemberProgress is the state of a member, as of the leader.
type MemberProgress struct {
	Member        shardmap.Member
	Match         uint64 // its log is the leader's up to here
	Configured    uint64 // it has logged the configuration of this index
	Durable       uint64 // its engine needs no entries up to here
	Active        bool   // was heard within an election timeout or two
	Replicating   bool   // entries flow
	NeedsSnapshot bool   // the log no longer has what it needs
}

// status returns the state of g and its group.
func (g *group) status() GroupStatus {
	s := GroupStatus{
		Replica: g.replica, Leads: g.leads(), Leader: g.leaderNode(), SingleVoter: g.single, Hibernating: g.hibernating, Fault: g.fault,
		Term: g.term, Commit: g.commit, Handed: g.handed, Applied: g.applied, Last: g.log.last, LastTerm: g.log.lastTerm(), Truncated: g.log.truncated,
		Trim: g.trim.index, Installing: g.installing != nil, Syncing: g.holds(), Transferring: g.transferee != raft.None,
		Configuration: g.config.clone(),
	}
	if g.told.term == g.term && !s.Leads {
		s.Told = g.told.index
	}
	switch leader := g.shared.peers.find(s.Leader); {
	case s.Leads:
	case g.hibernating && leader != nil:
		s.Heard = leader.heard
	default:
		s.Heard = g.elapsed
	}
	if s.Leads {
		s.TookOver = g.tookOver && g.shared.ticks-g.ledSince < takenTicks
		s.Leader = g.shared.config.Node
		g.eachProgress(func(p MemberProgress) { s.Progress = append(s.Progress, p) })
	}
	return s
}
