package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// exemplarWrite is one WriteExemplars under way.
type exemplarWrite struct {
	gather
	parts  map[uint16][]byte // encoded, by shard
	counts map[uint16]int

	collecting sync.Mutex
	outcomes   series.ExemplarOutcomes // guarded by collecting
}

// exemplarWritesMax bounds the writes of exemplars at once. Nodes bound the calls of a router, which are also its queries.
const exemplarWritesMax = 256

// ExemplarWriter writes exemplars to the leaders of their shards.
type ExemplarWriter struct {
	cluster  *Cluster
	sharding series.Sharding
	writes   chan struct{} // one for each that is under way
}

// ExemplarWriter returns the writer of exemplars of a cluster that chooses shards in this way.
func (c *Cluster) ExemplarWriter(sharding series.Sharding) ExemplarWriter {
	return ExemplarWriter{c, sharding, make(chan struct{}, exemplarWritesMax)}
}

// WriteExemplars has the leaders of their shards keep exemplars, with one call for each node. Those of nodes of older versions are
// refused. A shard whose answer is lost is asked again, which keeps nothing twice. Error: also series.ErrOverloaded, for too many at once.
func (x ExemplarWriter) WriteExemplars(ctx context.Context, exemplars []series.Exemplar) (series.ExemplarOutcomes, error) {
	if len(exemplars) == 0 {
		return series.ExemplarOutcomes{}, nil
	}
	select {
	case x.writes <- struct{}{}:
		defer func() { <-x.writes }()
	default:
		return series.ExemplarOutcomes{}, fmt.Errorf("%w: %d writes of exemplars at once are the most", series.ErrOverloaded, exemplarWritesMax)
	}
	w := &exemplarWrite{parts: map[uint16][]byte{}, counts: map[uint16]int{}}
	for i := range exemplars {
		shard := x.sharding.Of(exemplars[i].Key)
		w.parts[shard] = series.AppendExemplar(w.parts[shard], &exemplars[i])
		w.counts[shard]++
	}
	w.cluster, w.source, w.ask = x.cluster, x.cluster.Source(scan.Consistency{}), w.askNode
	err := w.run(ctx, slices.Sorted(maps.Keys(w.parts)))
	return w.outcomes, err
}

func (w *exemplarWrite) askNode(ctx context.Context, o *group) error {
	request := &nodev1.WriteExemplarsRequest{}
	for _, r := range o.reads {
		request.Parts = append(request.Parts, &nodev1.ShardExemplars{Shard: uint32(r.shard), Exemplars: w.parts[r.shard]})
	}
	m, err := await(o.watchdog, func() (*nodev1.WriteExemplarsResponse, error) { return o.node.reads.WriteExemplars(ctx, request) })
	if errors.Is(err, wire.ErrVersion) { // it does not know the call, or keeps none
		for _, r := range o.reads {
			w.add(series.ExemplarOutcomes{Refused: w.counts[r.shard]})
			w.leave(o, r)
		}
		return nil
	}
	if err != nil {
		return err
	}
	n := len(m.GetEnds())
	if len(m.GetKept()) != n || len(m.GetOutOfOrder()) != n || len(m.GetRefused()) != n {
		return fmt.Errorf("%w: %d ends, and counts of %d, %d and %d", wire.ErrInternal, n, len(m.GetKept()), len(m.GetOutOfOrder()), len(m.GetRefused()))
	}
	for i, e := range m.GetEnds() {
		r, shardErr, err := o.findEnd(e)
		if err != nil {
			return err
		}
		if shardErr == nil {
			w.add(series.ExemplarOutcomes{Kept: int(m.GetKept()[i]), OutOfOrder: int(m.GetOutOfOrder()[i]), Refused: int(m.GetRefused()[i])})
		}
		w.end(o, r, shardErr)
	}
	return nil
}

func (w *exemplarWrite) add(outcomes series.ExemplarOutcomes) {
	w.collecting.Lock()
	defer w.collecting.Unlock()
	w.outcomes.Add(outcomes)
}

// Exemplars implements scan.ExemplarSource: it asks the leaders of all shards. Nodes of older versions have none.
func (c *Cluster) Exemplars(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, visit func(*series.Exemplar) error) error {
	l := newShardList(c.Source(scan.Consistency{}), func(parts []*nodev1.ShardExemplars) error {
		for _, p := range parts {
			exemplars, err := series.ReadExemplars(p.GetExemplars())
			if err != nil {
				return fmt.Errorf("%w: %w", wire.ErrInternal, err)
			}
			for i := range exemplars {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := visit(&exemplars[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	l.ask = func(ctx context.Context, o *group) error {
		stream, err := await(o.watchdog, func() (nodev1.NodeService_ListExemplarsClient, error) {
			return o.node.reads.ListExemplars(ctx, &nodev1.ListExemplarsRequest{
				Selector: wire.FromSelector(selector), Shards: shardsOf(o.reads), FromMs: max(fromMs, scan.TimeMsMin), ToMs: min(toMs, scan.TimeMsMax),
			})
		})
		if err == nil {
			calls := l.newCall(o)
			err = receive(calls, stream.Recv, func(m *nodev1.ListExemplarsResponse) error {
				for _, p := range m.GetExemplars() {
					if err := calls.add(p.GetShard(), p, len(p.GetExemplars())+itemBytes); err != nil {
						return err
					}
				}
				return calls.end(m.GetEnds())
			})
		}
		if errors.Is(err, wire.ErrVersion) { // it does not know the call
			for _, r := range o.reads {
				l.leave(o, r)
			}
			return nil
		}
		return err
	}
	return unlessStopped(l.run(ctx, selector.Shards))
}
