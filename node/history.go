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
		shards = make([]uint16, n.Shards())
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
		changes[i] = n.Engine.History(mark)
	}
	return changes, nil
}
