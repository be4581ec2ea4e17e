package token

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/kept"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Cluster keeps records in the placement store of a cluster.
type Cluster struct {
	store  shardmap.Store
	clock  func() time.Time
	mirror kept.Mirror[string]
	away   atomic.Int64           // see AwaySince
	follow atomic.Pointer[func()] // nil: nobody does
}

// NewCluster makes a Cluster that is to be told of all views of the store by See, one after
// the other.
func NewCluster(store shardmap.Store) *Cluster { return &Cluster{store: store, clock: time.Now} }

// See replaces what is known with the present values of the store.
func (c *Cluster) See(view shardmap.View) {
	switch {
	case view.Err == nil: // it is back once its tokens are known
	case c.away.Load() == 0:
		c.away.Store(c.clock().UnixMilli())
	}
	if view.Tokens == nil { // they could not be read yet
		return
	}
	c.mirror.See(view.Tokens)
	if view.Err == nil {
		c.away.Store(0)
	}
	if changed := c.follow.Load(); changed != nil {
		(*changed)()
	}
}

// Records implements Store.
func (c *Cluster) Records() map[string]string { return c.mirror.All() }

// Load implements Store.
func (c *Cluster) Load(ctx context.Context, id string) (string, error) {
	view, err := c.store.Load(ctx)
	return view.Tokens[id], err
}

// Swap implements Store.
func (c *Cluster) Swap(ctx context.Context, id, old, next string) error {
	return c.store.SwapToken(ctx, id, old, next)
}

// SwapAll implements Store.
func (c *Cluster) SwapAll(ctx context.Context, swaps []shardmap.TokenSwap) error {
	return c.store.SwapTokens(ctx, swaps)
}

// Await implements Store.
func (c *Cluster) Await(ctx context.Context, id, record string) { c.mirror.Await(ctx, id, record) }

// Follow implements Store.
func (c *Cluster) Follow(changed func()) { c.follow.Store(&changed) }

// AwaySince implements Store.
func (c *Cluster) AwaySince() int64 { return c.away.Load() }
