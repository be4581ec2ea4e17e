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
	if shards == nil {
		shards = make([]uint16, n.engine.Shards())
		for i := range shards {
			shards[i] = uint16(i)
		}
	}
	if err := errors.Join(n.Confirm(ctx, shards, 0)...); err != nil {
		return nil, err
	}
	changes := make([]scan.Change, len(shards))
	for i, shard := range shards {
		mark := scan.Mark{Shard: shard}
		if at, found := slices.BinarySearchFunc(since, shard, func(m scan.Mark, shard uint16) int { return cmp.Compare(m.Shard, shard) }); found {
			mark = since[at]
		}
		era := n.Era(shard)
		changes[i] = n.engine.History(ofEra(mark, era))
		changes[i].Mark = ofEra(changes[i].Mark, era)
	}
	return changes, nil
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
