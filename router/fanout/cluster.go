package fanout

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/router/resolve"
)

// Cluster is a cluster as a router sees it. It is safe for concurrent use.
type Cluster struct {
	options  Options
	resolver *resolve.Resolver
	metrics  *metrics
	sessions sessions
	writes   inFlightLimiter   // for frames in flight
	waiting  inFlightLimiter   // for those of them that wait for every full voter
	sequence atomic.Uint64     // of the last attempt
	buffers  transport.Buffers // for requests

	current atomic.Pointer[view]
	leaders [shardmap.ShardsMax]atomic.Pointer[string] // by shard: the node that is guessed to lead
	terms   [shardmap.ShardsMax]shardTerm              // by shard

	change sync.Mutex // held while the view changes
	closed bool       // guarded by change
}

// New returns a Cluster that has no map yet. Close ends it.
func New(o Options) *Cluster {
	o.setDefaults()
	c := &Cluster{
		options: o, resolver: resolve.New(shardmap.ShardsMax, o.Limits.ResolverBytesMax),
		writes: newInFlightLimiter(o.Limits.WritesMax, o.Limits.WriteBytesMax),
		// Of a stream, too, others have half.
		waiting: newInFlightLimiter(o.Limits.WritesMax/2, min(o.Limits.WriteBytesMax, o.Limits.StreamBytesMax)/2),
	}
	c.current.Store(&view{nodes: map[string]*node{}})
	c.metrics = newMetrics(o.Registerer, c)
	return c
}

// Resolver returns the cache of series' ids that writes fill.
func (c *Cluster) Resolver() *resolve.Resolver { return c.resolver }

// WriteBytes returns the bytes of frames in flight.
func (c *Cluster) WriteBytes() int64 { return c.writes.held.Load() }

// Generation is that of the Resolver's ids.
func (c *Cluster) Generation() uint64 { return c.resolver.Generation() }

// Epoch returns the epoch of the map that the cluster goes by; 0: there is none yet.
func (c *Cluster) Epoch() uint64 { return c.current.Load().seen.Epoch }

// Shards returns the number of shards; 0: there is no map yet.
func (c *Cluster) Shards() int { return len(c.current.Load().rows) }

// Follow sets the view to what a store reports, until the channel is closed. What a
// store reports while it cannot be relied on is the last good state, so it is taken.
func (c *Cluster) Follow(views <-chan shardmap.View) {
	for v := range views {
		if err := c.SetView(v.Map, v.Nodes); err != nil {
			c.options.Logger.Error("the placement store's shard map is refused", "error", err)
		}
	}
}

// SetView returns what the cluster is from now on: its map, nil when nothing is known of
// it but what was said before, and the nodes that are alive, by id. Neither is changed
// by anyone afterwards. A node that is not alive by the store's word but is in the map
// stays connected: it may have lost nothing but the store. Errors: wire.ErrStaleMap,
// wire.ErrWrongCluster; then nothing has changed.
func (c *Cluster) SetView(m *shardmap.Map, nodes map[string]shardmap.NodeInfo) error {
	c.change.Lock()
	defer c.change.Unlock()
	if c.closed {
		return errClosed
	}
	before := c.current.Load()
	next := &view{seen: before.seen, rows: before.rows, nodes: map[string]*node{}}
	if m != nil {
		if err := follows(before, m); err != nil {
			return err
		}
		next.seen, next.rows = shardmap.Seen{ClusterID: m.ID, Epoch: m.Epoch}, m.Rows
	}
	left := maps.Clone(before.nodes)
	for id, info := range nodes {
		n := before.nodes[id]
		if n == nil || n.address != info.RPCAddress || n.incarnation != info.Incarnation {
			var err error
			if n, err = c.connect(info); err != nil {
				c.options.Logger.Error("a node's address cannot be used", "node", id, "address", info.RPCAddress, "error", err)
				continue
			}
		} else {
			delete(left, id)
		}
		next.nodes[id] = n
	}
	named := next.names()
	for id, n := range left {
		if next.nodes[id] == nil && named[id] {
			next.nodes[id] = n
			delete(left, id)
		}
	}
	c.current.Store(next)
	for _, n := range left {
		c.options.Logger.Info("the connection to a node is given up", "node", n.id, "address", n.address)
		n.close()
	}
	return nil
}

func follows(before *view, m *shardmap.Map) error {
	switch {
	case len(m.Rows) == 0 || len(m.Rows) > shardmap.ShardsMax:
		return fmt.Errorf("%w: %d rows", shardmap.ErrMap, len(m.Rows))
	case before.seen.Epoch == 0:
		return nil
	case m.ID != before.seen.ClusterID:
		return fmt.Errorf("%w: cluster %s, not %s", wire.ErrWrongCluster, m.ID, before.seen.ClusterID)
	case m.Epoch < before.seen.Epoch:
		return fmt.Errorf("%w: epoch %d, not %d", wire.ErrStaleMap, m.Epoch, before.seen.Epoch)
	case len(m.Rows) != len(before.rows):
		return fmt.Errorf("%w: %d shards, not %d", shardmap.ErrMap, len(m.Rows), len(before.rows))
	}
	return nil
}

// errClosed: the router is shutting down.
var errClosed = fmt.Errorf("%w: the router is shutting down", series.ErrUnavailable)

// Close closes all connections. Writes and reads in flight fail.
func (c *Cluster) Close() {
	c.change.Lock()
	defer c.change.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	last := c.current.Load()
	c.current.Store(&view{seen: last.seen, rows: last.rows, nodes: map[string]*node{}})
	for _, n := range last.nodes {
		n.close()
	}
	c.metrics.unregister()
}

// viewNow returns the view, or why nothing can be done.
func (c *Cluster) viewNow(ctx context.Context) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := c.current.Load()
	if len(v.rows) == 0 {
		return nil, errNoMap
	}
	return v, nil
}
