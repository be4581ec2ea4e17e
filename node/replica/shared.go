package replica

import (
	"math/rand/v2"
	"slices"
)

// shared is the state that the groups of a Host have in common: their bounds, the tick, the
// other nodes, and the queues of the next Round. It does not depend on Raft.
type shared struct {
	config         Config
	reader         Log
	rng            *rand.Rand // draws election timeouts
	ticks          int
	peers          peerTable
	next           nextRound
	groups         int    // number of the groups of the Host
	heldBytes      int    // of entries, by all groups
	exceeding      *group // has taken more than there was room for; see mayExceed
	lagging        laggingReads
	membersChanged bool // of some group, since the peers' groups were counted
	refuses        bool // the node takes no writes: see Host.Refuse
	refusesSince   int  // tick; valid if refuses
}

func newShared(config Config, reader Log) *shared {
	return &shared{
		config: config,
		reader: reader, lagging: laggingReads{bytesMax: config.LaggingBytesMax},
		rng:   rand.New(rand.NewPCG(config.Seed, 0x7469636b6d657368)),
		peers: peerTable{node: config.Node, run: config.Run, electionTicks: config.ElectionTicks, heartbeatTicks: config.HeartbeatTicks},
	}
}

// nextRound has what groups have queued for the next Round, and the groups by what they
// wait for.
type nextRound struct {
	dirty   []*group // groups to collect from
	inRound []*group // groups with something in the Round under way
	holding []*group // groups that wait for a sync (hold)

	removed   []GroupState
	released  []Committed // that have waited for a sync, in order
	prepared  []uint16
	failed    []Failure
	reads     []ReadReady
	snapshots []SnapshotNeed
}

// begin puts into an empty Round what has to come first: removals, so that a shard that was
// removed and created again is logged in that order, and entries that waited for a sync, so
// that they come before later ones of their shard.
func (n *nextRound) begin(round *Round) {
	round.States = append(round.States, n.removed...)
	round.Sync = len(n.removed) > 0
	n.removed = n.removed[:0]
	round.Committed = append(round.Committed, n.released...)
	clear(n.released)
	n.released = n.released[:0]
}

// drain moves what is queued, other than what begin puts first, to round.
func (n *nextRound) drain(round *Round) {
	round.Failed = append(round.Failed, n.failed...)
	round.Reads = append(round.Reads, n.reads...)
	round.Snapshots = append(round.Snapshots, n.snapshots...)
	round.Prepared = append(round.Prepared, n.prepared...)
	clear(n.failed)
	n.failed, n.reads, n.snapshots, n.prepared = n.failed[:0], n.reads[:0], n.snapshots[:0], n.prepared[:0]
}

// forget drops a group that is removed, and queues the record of its removal.
func (n *nextRound) forget(g *group) {
	is := func(other *group) bool { return other == g }
	n.dirty = slices.DeleteFunc(n.dirty, is)
	n.inRound = slices.DeleteFunc(n.inRound, is)
	n.removed = append(n.removed, GroupState{Replica: g.replica, Removed: true})
}
