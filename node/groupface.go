package node

import (
	"context"
	"errors"

	"github.com/tickmesh/tickmesh/node/repair"
	"github.com/tickmesh/tickmesh/node/replica"
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
