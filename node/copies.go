package node

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Copies returns all replicas in the data folder, of those too that take no part: what a
// shard whose group has lost its majority may go on from. Error: series.ErrUnavailable.
func (n *Node) Copies() (shardmap.NodeCopies, error) {
	out := shardmap.NodeCopies{Node: n.options.NodeID, Incarnation: n.engine.Incarnation(), Former: n.FormerIncarnations(), SyncMs: n.syncMs()}
	err := n.loop.queue.do(func() { out.Copies = n.loop.machine.Copies() })
	return out, err
}

// syncMs bounds how long it takes until the log is on disk; 0: nothing does.
func (n *Node) syncMs() int64 {
	switch n.options.Sync {
	case SyncInterval:
		return max(1, n.options.SyncInterval.Milliseconds())
	case SyncAlways:
		return 1 // nothing is answered before
	case SyncOff:
	}
	return 0
}

// FormerIncarnations returns what the data folder was before: the last ones.
func (n *Node) FormerIncarnations() []string {
	return slices.DeleteFunc(slices.Clone(n.former), func(id string) bool { return id == n.engine.Incarnation() })
}
