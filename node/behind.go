package node

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// Behind gives the shards of which this node is a voter and has not caught up: it knows
// no leader, or has not applied what it knows to be committed. It is empty when the node
// is stopped.
func (n *Node) Behind() (behind []uint16) {
	if n.loop.allLone() {
		return nil
	}
	_ = n.loop.queue.do(func() { // a queue that is closed runs nothing
		for _, shard := range n.loop.host.Shards() {
			status, err := n.loop.host.Status(shard)
			if err != nil || status.Lone || !votes(status) {
				continue
			}
			if status.Leader == "" || status.Installing || status.Role == shardmap.Full && n.Applied(shard) < status.Commit {
				behind = append(behind, shard)
			}
		}
	})
	return behind
}

// votes says whether a replica votes in its group, as far as it knows.
func votes(status replica.GroupStatus) bool {
	return slices.ContainsFunc(status.Configuration.Members, func(m shardmap.Member) bool {
		return m.RaftID == status.RaftID && m.Role.Votes()
	})
}
