package node

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// Receive takes an envelope from another node, and owns it. It does not block; what
// does not fit is dropped, which Raft makes up for.
func (n *Node) Receive(from string, envelope []byte) { n.loop.queue.receive(from, envelope) }

// HeardClock takes what another node's clock has just said, in ms since 1970.
func (n *Node) HeardClock(from string, timeMs int64) { n.clocks.Hear(from, timeMs) }

// PeerUp reports that another node can be reached again.
func (n *Node) PeerUp(peer string) { n.loop.queue.peer(peer, true) }

// PeerDown reports that another node cannot be reached.
func (n *Node) PeerDown(peer string) { n.loop.queue.peer(peer, false) }

// Era returns the era of a shard's ids; 0: there is no replica.
func (n *Node) Era(shard uint16) uint32 { return n.loop.groups[shard].era.Load() }

// Lives counts the replicas of a shard that ended here. A reader that finds another
// count than before Confirm may have read less than was confirmed.
func (n *Node) Lives(shard uint16) uint64 { return n.loop.groups[shard].lives.Load() }

// Applied returns the last entry of a shard that is applied.
func (n *Node) Applied(shard uint16) uint64 { return n.loop.applied[shard].value.Load() }

// TransferLeader starts to hand a shard over to the full voter of another node; an
// empty name stands for the one that has most. Errors: those of replica.Host.
func (n *Node) TransferLeader(shard uint16, toNode string) (err error) {
	failed := n.loop.queue.do(func() { err = n.loop.machine.Transfer(shard, toNode) })
	if failed != nil {
		return failed
	}
	return err
}

// GroupStatus is the state of one of the node's groups.
type GroupStatus struct {
	replica.GroupStatus
	EngineApplied uint64
	// Bytes of the shard's segments, and the shard's part of the page log if all shards
	// with data have as much of it: about what a copy has to carry.
	Bytes int64
	Fetch *transfer.Progress // of files on their way here; nil: none are
}

// Groups returns the status of all groups, by shard.
func (n *Node) Groups() ([]GroupStatus, error) {
	var out []GroupStatus
	err := n.loop.queue.do(func() {
		for _, shard := range n.loop.machine.Host().Shards() {
			if status, err := n.loop.machine.Host().Status(shard); err == nil {
				out = append(out, GroupStatus{GroupStatus: status, EngineApplied: n.Applied(shard)})
			}
		}
	})
	_, pageBytes := n.engine.Generations()
	full, now := int64(0), n.options.Clock()
	for i := range out {
		full += oneOf(out[i].Role == shardmap.Full)
	}
	for i := range out {
		out[i].Bytes = n.engine.ShardStats(out[i].Shard).SegmentBytes
		if out[i].Role == shardmap.Full {
			out[i].Bytes += pageBytes / full
		}
		out[i].Fetch = n.transfer.Progress(out[i].Shard, now)
	}
	return out, err
}

// Resign hands over every group that this node leads and another full voter could
// lead, before it stops. It returns the number of groups that it still leads.
func (n *Node) Resign() (left int) {
	_ = n.loop.queue.do(func() { left = n.loop.machine.Resign() })
	return left
}

// errSyncing reports that a configuration is not durable here yet.
var errSyncing = fmt.Errorf("%w: the group's configuration is being synced", series.ErrUnavailable)

// GroupView returns for another node the state of the replica of a shard here. Errors: those of
// replica.Host.Status, and series.ErrUnavailable.
func (n *Node) GroupView(shard uint16) (view commit.GroupView, err error) {
	status, err := (groups{n}).Status(shard)
	if err != nil {
		return view, err
	}
	if status.Syncing { // the other one may drop its data on the ground of this
		return view, errSyncing
	}
	c := &status.Configuration
	view = commit.GroupView{Era: status.Era, Index: c.Index, Members: slices.Clone(c.Members)}
	for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		view.RaftIDs = append(view.RaftIDs, list...)
	}
	return view, nil
}
