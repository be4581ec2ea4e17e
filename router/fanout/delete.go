package fanout

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Delete implements scan.Deleter. A shard whose answer is lost is asked again under the
// same id: a delete that was done is not done again, and what was written since stays.
func (c *Cluster) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	if fromMs > toMs {
		return 0, ctx.Err()
	}
	var touched atomic.Int64
	session, id := c.sessions.take()
	defer c.sessions.give(session, id)
	g := &gather{cluster: c, source: c.Source(scan.Consistency{})}
	g.ask = func(ctx context.Context, o *group) error {
		m, err := await(o.watchdog, func() (*nodev1.DeleteResponse, error) {
			return o.node.reads.Delete(ctx, &nodev1.DeleteRequest{
				Selector: wire.FromSelector(selector), Shards: shardsOf(o.reads), FromMs: max(fromMs, scan.TimeMsMin), ToMs: min(toMs, scan.TimeMsMax),
				BatchId: wire.FromBatchID(id),
			})
		})
		if err != nil {
			return err
		}
		if len(m.GetSeriesTouched()) != len(m.GetEnds()) {
			return fmt.Errorf("%w: %d ends and %d counts of series", wire.ErrInternal, len(m.GetEnds()), len(m.GetSeriesTouched()))
		}
		for i, e := range m.GetEnds() {
			r, shardErr, err := o.findEnd(e)
			if err != nil {
				return err
			}
			if shardErr == nil {
				touched.Add(m.GetSeriesTouched()[i])
			}
			g.end(o, r, shardErr)
		}
		return nil
	}
	err := g.run(ctx, selector.Shards)
	return touched.Load(), err
}
