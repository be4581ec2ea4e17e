package node

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
)

// History implements scan.Historian for the shards that this node may answer for.
func (n *Node) History(ctx context.Context, shards []uint16, since []scan.Mark) ([]scan.Change, error) {
	if !n.loop.single.Load() { // else what is answered is applied
		if shards == nil {
			shards = n.allShards()
		}
		if err := errors.Join(n.Confirm(ctx, shards, 0)...); err != nil {
			return nil, err
		}
	}
	count := len(shards)
	if shards == nil {
		count = n.engine.Shards()
	}
	changes := make([]scan.Change, count)
	for i := range changes {
		shard := uint16(i)
		if shards != nil {
			shard = shards[i]
		}
		era := n.Era(shard)
		changes[i] = n.engine.History(ofEra(markOf(since, i, shard), era))
		changes[i].Mark = ofEra(changes[i].Mark, era)
	}
	return changes, nil
}

// markOf returns the mark of a shard among sorted ones, where it is likely to be number i; without a run if there is none.
func markOf(since []scan.Mark, i int, shard uint16) scan.Mark {
	if i < len(since) && since[i].Shard == shard {
		return since[i]
	}
	if at, found := slices.BinarySearchFunc(since, shard, func(m scan.Mark, shard uint16) int { return cmp.Compare(m.Shard, shard) }); found {
		return since[at]
	}
	return scan.Mark{Shard: shard}
}

// ofEra makes a run within an era of the run of a replica, and the other way round. What a
// router was told by the leader of a lost era says nothing of entries that were written again.
func ofEra(m scan.Mark, era uint32) scan.Mark {
	const spread = 0x9e3779b97f4a7c15 // odd, so that each era has another pattern of bits
	if m.Run != 0 {
		m.Run ^= uint64(era) * spread
	}
	return m
}
