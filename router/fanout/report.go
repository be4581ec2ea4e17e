package fanout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Reports asks all nodes at once what they have, and returns the answers of those that
// did, by node.
func (c *Cluster) Reports(ctx context.Context, request *nodev1.ReportRequest) map[string]*nodev1.ReportResponse {
	var mu sync.Mutex
	reports := map[string]*nodev1.ReportResponse{}
	var asked sync.WaitGroup
	for id, n := range c.current.Load().nodes {
		asked.Go(func() {
			ctx, p, done := c.watch(ctx, n)
			defer done()
			r, err := await(p, func() (*nodev1.ReportResponse, error) { return n.reads.Report(ctx, request) })
			if err != nil {
				c.options.Logger.Debug("a node does not report", "node", id, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			reports[id] = r
		})
	}
	asked.Wait()
	return reports
}

// TransferLeader asks a node to hand a shard over to another. Errors: wire.ErrNotFound
// for a node that is not connected; those of the node.
func (c *Cluster) TransferLeader(ctx context.Context, shard uint16, from, to string) error {
	nodes := c.current.Load().nodes
	n := nodes[from]
	if n == nil {
		return fmt.Errorf("%w: node %s is none of %v", wire.ErrNotFound, from, slices.Sorted(maps.Keys(nodes)))
	}
	ctx, p, done := c.watch(ctx, n)
	defer done()
	_, err := await(p, func() (*nodev1.TransferLeaderResponse, error) {
		return n.reads.TransferLeader(ctx, &nodev1.TransferLeaderRequest{Shard: uint32(shard), ToNode: to})
	})
	return err
}
