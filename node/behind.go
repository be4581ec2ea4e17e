package node

import (
	"context"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// behindWait is what a node that has caught up may need to apply what was committed by
// the time that it is asked: under load some entry of some shard always is under way.
// Probes of Kubernetes wait for a second unless they are told otherwise.
const behindWait = 500 * time.Millisecond

// Behind gives the shards of which this node is a voter and has not caught up: it knows
// no leader, or has not applied what it or its leader knew to be committed when it was
// asked, nor within half a second. It is empty when the node is stopped.
func (n *Node) Behind() (behind []uint16) {
	if n.loop.allLone() {
		return nil
	}
	committed := map[uint16]uint64{}
	_ = n.loop.queue.do(func() { // a queue that is closed runs nothing
		for _, shard := range n.loop.host.Shards() {
			status, err := n.loop.host.Status(shard)
			if err != nil || status.Lone || !votes(status) {
				continue
			}
			if status.Leader == "" || status.Installing {
				behind = append(behind, shard)
			} else if index := max(status.Commit, status.Told); status.Role == shardmap.Full && n.Applied(shard) < index {
				committed[shard] = index
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), behindWait)
	defer cancel()
	for shard, index := range committed {
		if n.loop.applied[shard].await(ctx, index) != nil {
			behind = append(behind, shard)
		}
	}
	slices.Sort(behind)
	return behind
}

// votes says whether a replica votes in its group, as far as it knows.
func votes(status replica.GroupStatus) bool {
	return slices.ContainsFunc(status.Configuration.Members, func(m shardmap.Member) bool {
		return m.RaftID == status.RaftID && m.Role.Votes()
	})
}
