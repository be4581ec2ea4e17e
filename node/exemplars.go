package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

var _ scan.ExemplarSource = (*Node)(nil)

// ShardExemplars are exemplars of series of one shard.
type ShardExemplars struct {
	Shard     uint16
	Exemplars []series.Exemplar
}

// ExemplarsWritten is what has become of the exemplars of one shard. With an error it is not known; with that of a shard that this node
// does not lead none was kept.
type ExemplarsWritten struct {
	Shard uint16
	Err   error
	series.ExemplarOutcomes
}

// shardExemplarBytes returns how many bytes of exemplars a shard may keep by the word of this node; 0: none, which is also
// the case while a node has said that it does not know of exemplars: it would report each such entry as one that it cannot apply. What
// another one has not said yet does not matter, as it would pass over them, too.
func (n *Node) shardExemplarBytes() int64 {
	if n.options.ExemplarBytes == 0 || n.peers.any(exemplarsUnknown) {
		return 0
	}
	return n.options.ExemplarBytes / int64(n.engine.Shards())
}

// KeepsExemplars reports whether exemplars that come now are kept.
func (n *Node) KeepsExemplars() bool { return n.shardExemplarBytes() > 0 }

// WriteExemplarParts keeps exemplars, as far as they are newer than those of their series that are kept, and of series that there are.
// Each shard has its own outcome, in their order. Exemplars may be written again. An error stands for all shards: nothing was proposed, or that is unknown.
//
// The leadership of each shard is confirmed first, as for a delete: who leads no more, or lags, does not know of all series. A node that keeps
// no exemplars refuses all at once.
func (n *Node) WriteExemplarParts(ctx context.Context, parts []ShardExemplars) ([]ExemplarsWritten, error) {
	written, shards := make([]ExemplarsWritten, len(parts)), make([]uint16, len(parts))
	for i := range parts {
		if shards[i] = parts[i].Shard; int(shards[i]) >= n.engine.Shards() {
			return nil, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, shards[i], n.engine.Shards())
		}
		written[i].Shard = shards[i]
	}
	bound := n.shardExemplarBytes()
	if bound == 0 { // nobody need be asked for that
		for i := range parts {
			written[i].Refused = len(parts[i].Exemplars)
		}
		return written, nil
	}
	w, proposed := commit.NewWrite(series.BatchID{}, len(parts)), []*ExemplarsWritten(nil)
	for i, err := range n.Confirm(ctx, shards, 0) {
		o, fresh := &written[i], []series.Exemplar(nil)
		if err == nil {
			fresh, o.ExemplarOutcomes, err = n.engine.AdmitExemplars(ctx, o.Shard, bound, parts[i].Exemplars)
		}
		if o.Err = err; err == nil && len(fresh) > 0 {
			w.Add(entry.Exemplars, o.Shard, entry.ExemplarsBody(bound, fresh))
			proposed = append(proposed, o)
		}
	}
	if err := n.submit(ctx, w); err != nil {
		return nil, err
	}
	for i, o := range proposed {
		o.Err = w.Proposals[i].Err
	}
	return written, nil
}

// WriteExemplars is WriteExemplarParts of a node that leads all shards.
func (n *Node) WriteExemplars(ctx context.Context, exemplars []series.Exemplar) (outcomes series.ExemplarOutcomes, err error) {
	written, err := n.WriteExemplarParts(ctx, PartExemplars(n.Sharding(), exemplars))
	if err != nil {
		return outcomes, err
	}
	for i := range written {
		if written[i].Err != nil {
			err = written[i].Err
			continue
		}
		outcomes.Add(written[i].ExemplarOutcomes)
	}
	return outcomes, err
}

// PartExemplars returns exemplars by shard, in growing order of shards; of each shard they are in the order given.
func PartExemplars(sharding series.Sharding, exemplars []series.Exemplar) (parts []ShardExemplars) {
	for i := range exemplars {
		shard := sharding.Of(exemplars[i].Key)
		at, found := slices.BinarySearchFunc(parts, shard, func(p ShardExemplars, shard uint16) int { return int(p.Shard) - int(shard) })
		if !found {
			parts = slices.Insert(parts, at, ShardExemplars{Shard: shard})
		}
		parts[at].Exemplars = append(parts[at].Exemplars, exemplars[i])
	}
	return parts
}

// ShardExemplars returns the exemplars of a shard as far as they are applied here.
func (n *Node) ShardExemplars(ctx context.Context, shard uint16, selector *scan.Selector, fromMs, toMs int64) ([]series.Exemplar, error) {
	if int(shard) >= n.engine.Shards() {
		return nil, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, shard, n.engine.Shards())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return n.engine.Exemplars(shard, selector, fromMs, toMs)
}

// Exemplars implements scan.ExemplarSource.
func (n *Node) Exemplars(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, visit func(*series.Exemplar) error) error {
	shards := selector.Shards
	if shards == nil {
		shards = n.allShards()
	}
	for _, shard := range shards {
		found, err := n.ShardExemplars(ctx, shard, selector, fromMs, toMs)
		if err != nil {
			return err
		}
		for i := range found {
			if err := visit(&found[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
