package node

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
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

// errSyncing reports that a configuration is not durable here yet.
var errSyncing = fmt.Errorf("%w: the group's configuration is being synced", series.ErrUnavailable)
