package node

import (
	"context"
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/repair"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// groups is what the packages below node may ask about the groups of this node.
type groups struct{ node *Node }

var _ repair.Groups = groups{}

// Status implements repair.Groups.
func (g groups) Status(shard uint16) (status replica.GroupStatus, err error) {
	l := g.node.loop
	failed := l.queue.do(func() { status, err = l.machine.Host().Status(shard) })
	return status, errors.Join(err, failed)
}

// Leads implements repair.Groups.
func (g groups) Leads(shard uint16) bool { return g.node.loop.groups[shard].leads.Load() }

// AwaitApplied implements repair.Groups.
func (g groups) AwaitApplied(ctx context.Context, shard uint16, index uint64) error {
	return g.node.loop.applied[shard].await(ctx, index)
}

// TransferLeader implements repair.Groups.
func (g groups) TransferLeader(shard uint16, toNode string) error {
	return g.node.TransferLeader(shard, toNode)
}

// Repair returns what compares and mends the copies of this node's shards.
func (n *Node) Repair() *repair.Service { return n.repair }

// HasCopies reports whether other nodes have copies of a shard that this node has.
func (n *Node) HasCopies(shard uint16) bool {
	v := &n.loop.groups[shard]
	return v.era.Load() != 0 && !v.single.Load()
}

// Problems lists what a person should know of this node, the worst first.
func (n *Node) Problems() []string { return append(n.repair.Problems(), n.clocks.Problems()...) }

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
