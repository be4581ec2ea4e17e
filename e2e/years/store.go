package years

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Copy is what is compared with the oracle: a node, or all of a cluster.
type Copy interface {
	Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error
	Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error
	SeriesBetween(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, limit int, visit func(series.Key) error) (total int64, err error)
	DigestRange(ctx context.Context, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error)
	Sharding() series.Sharding
}

// Store is what a life writes to.
type Store interface {
	Copy
	// ResolveIn fills in the references of a shard's series that are known, and returns the era that they are of.
	ResolveIn(shard uint16, keys []series.Key, refs []series.Ref) (era uint32)
	WriteFrame(ctx context.Context, frame *series.Frame) error
	Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error)
}

// alone is a node by itself.
type alone struct{ *node.Node }

func (a alone) DigestRange(ctx context.Context, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error) {
	return a.Repair().DigestRange(ctx, shard, fromMs, toMs)
}

func (a alone) ResolveIn(_ uint16, keys []series.Key, refs []series.Ref) uint32 {
	a.Resolve(series.HintNone, keys, refs)
	return 0
}

func (a alone) WriteFrame(ctx context.Context, frame *series.Frame) error {
	_, err := a.Write(ctx, frame)
	return err
}
