package node

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
)

// DeleteOutcome is what a delete did in one shard. With an error it may, or may not,
// have been done; with that of a shard that this node does not lead it was not.
type DeleteOutcome struct {
	Shard         uint16
	Err           error
	SeriesTouched int64
}

// Delete implements scan.Deleter. The shards are Selector.Shards, nil for all; if this
// node does not lead one of them, the error says so, and others may have been done.
func (n *Node) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	outcomes, err := n.DeleteParts(ctx, series.BatchID{}, selector, fromMs, toMs)
	if err != nil {
		return 0, err
	}
	touched := int64(0)
	for i := range outcomes {
		touched += outcomes[i].SeriesTouched
		if err == nil {
			err = outcomes[i].Err
		}
	}
	return touched, err
}

// DeleteParts is Delete for callers that go on with some shards elsewhere: each shard
// has its own outcome, in the order of the selector. An error stands for all shards:
// nothing was proposed, or that is unknown.
//
// With an id, a shard in which a delete of that id was done is left as it is: what was
// written since then stays. Its outcome is that of one that was done now.
//
// The series are looked up here, so first the leadership of each shard is confirmed, as
// for a read: who leads no more, or lags, does not know of series that have samples.
func (n *Node) DeleteParts(ctx context.Context, id series.BatchID, selector *scan.Selector, fromMs, toMs int64) ([]DeleteOutcome, error) {
	// Also when nothing matches now: a write that failed may come back with a restart.
	if err := n.loop.refusals.ofWrites(); err != nil {
		return nil, err
	}
	if n.engine.Tombstones() >= manifest.TombstonesMax {
		return nil, fmt.Errorf("%w: %d deletes wait for compaction", series.ErrOverloaded, manifest.TombstonesMax)
	}
	led := *selector
	if led.Shards == nil {
		led.Shards = n.allShards()
	}
	for _, shard := range led.Shards {
		if int(shard) >= n.engine.Shards() {
			return nil, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, shard, n.engine.Shards())
		}
	}
	outcomes := make([]DeleteOutcome, len(led.Shards))
	var confirmed []uint16
	for i, err := range n.Confirm(ctx, led.Shards, 0) {
		outcomes[i] = DeleteOutcome{Shard: led.Shards[i], Err: err}
		if err == nil {
			confirmed = append(confirmed, led.Shards[i])
		}
	}
	if len(confirmed) == 0 {
		return outcomes, nil
	}
	led.Shards = confirmed
	byShard, _, err := n.engine.SelectIDs(ctx, &led)
	if err != nil {
		return nil, err
	}
	w := commit.NewWrite(id, len(confirmed))
	var proposed []*DeleteOutcome
	for i := range outcomes {
		o := &outcomes[i]
		if ids := byShard[o.Shard]; o.Err == nil && len(ids) > 0 {
			kind, body := entry.Delete, entry.DeleteBody(ids, fromMs, toMs)
			if id.Session != 0 {
				kind, body = entry.NamedDelete, entry.NamedDeleteBody(n.options.Clock().UnixMilli(), id, body)
			}
			w.Add(kind, o.Shard, body)
			o.SeriesTouched = int64(len(ids))
			proposed = append(proposed, o)
		}
	}
	// Who has given up asks again: a delete must not come after that.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := n.submit(ctx, w); err != nil {
		return nil, err
	}
	for i, o := range proposed {
		if o.Err = w.Proposals[i].Err; o.Err != nil {
			o.SeriesTouched = 0
		}
	}
	return outcomes, nil
}

func (n *Node) allShards() []uint16 {
	shards := make([]uint16, n.engine.Shards())
	for i := range shards {
		shards[i] = uint16(i)
	}
	return shards
}
