package node

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// The data of a node as its readers see it: all of what is applied here, whoever leads.
// Confirm returns beforehand the shards of which that is enough. These methods are the whole face
// of the engine; nobody outside the node can apply, checkpoint or install.
var _ scan.Dated = (*Node)(nil)

// Incarnation returns the identity of the data folder.
func (n *Node) Incarnation() string { return n.engine.Incarnation() }

// Shards returns the number of shards.
func (n *Node) Shards() int { return n.engine.Shards() }

// Sharding returns how series are distributed over the shards.
func (n *Node) Sharding() series.Sharding { return n.engine.Sharding() }

// SamplesApplied returns how many samples were applied since the start.
func (n *Node) SamplesApplied() int64 { return n.engine.SamplesApplied() }

// Generation grows when a writer has named a series by an id that is forgotten: then no id that was resolved before is to be
// relied on. It is never 0.
func (n *Node) Generation() uint64 { return 1 + uint64(n.engine.ForgottenRefused()) }

// LookupSeries returns the reference of a series, and whether there is one.
func (n *Node) LookupSeries(key series.Key) (ref series.Ref, known bool, err error) {
	return n.engine.LookupSeries(key)
}

// Resolve fills in the references of the series that are known; see storage.Engine.Resolve.
func (n *Node) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	n.engine.Resolve(hint, keys, refs)
}

// Scan implements scan.Source.
func (n *Node) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	return n.engine.Scan(ctx, request, visit)
}

// Last implements scan.Source.
func (n *Node) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	return n.engine.Last(ctx, selector, fromMs, limits, visit)
}

// Series implements scan.Source.
func (n *Node) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (total int64, err error) {
	return n.engine.Series(ctx, selector, limit, visit)
}

// SeriesBetween is Series for those that may have samples in [fromMs, toMs].
func (n *Node) SeriesBetween(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, limit int, visit func(series.Key) error) (total int64, err error) {
	return n.engine.SeriesBetween(ctx, selector, fromMs, toMs, limit, visit)
}

// Between implements scan.Dated.
func (n *Node) Between(fromMs, toMs int64) scan.Source { return n.engine.Between(fromMs, toMs) }

// Source returns what reads of all shards see now.
func (n *Node) Source() *read.Source { return n.engine.Source }

// NamesOf returns the names of the series of some shards; nil stands for all shards.
func (n *Node) NamesOf(shards []uint16) read.Names { return n.engine.NamesOf(shards) }

// Databases implements scan.Source.
func (n *Node) Databases(ctx context.Context) ([]string, error) { return n.engine.Databases(ctx) }

// Metrics implements scan.Source.
func (n *Node) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return n.engine.Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (n *Node) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return n.engine.TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source.
func (n *Node) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return n.engine.TagValues(ctx, database, metric, name, prefix, limit)
}

// ChangesSince returns what has changed in one shard since a mark, as far as it is applied
// here. History is for callers that want the leader's word.
func (n *Node) ChangesSince(since scan.Mark) scan.Change { return n.engine.History(since) }

// SeriesCount returns the number of series that were ever created.
func (n *Node) SeriesCount() int64 { return n.engine.SeriesCount() }
