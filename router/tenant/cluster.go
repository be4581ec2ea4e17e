package tenant

import (
	"context"

	"github.com/tickmesh/tickmesh/api/kept"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Cluster keeps marks in the placement store of a cluster.
type Cluster struct {
	store  shardmap.Store
	mirror kept.Mirror[shardmap.DatabaseMark]
}

// NewCluster makes a Cluster that is to be told of all views of the store by See.
func NewCluster(store shardmap.Store) *Cluster { return &Cluster{store: store} }

// See replaces what is known with the present values of the store.
func (c *Cluster) See(view shardmap.View) {
	if view.Databases != nil { // else it could not be read yet
		c.mirror.See(view.Databases)
	}
}

// All implements Marks.
func (c *Cluster) All() map[string]shardmap.DatabaseMark { return c.mirror.All() }

// Set implements Marks. What is set is seen by All afterwards, unless the watch is slow.
func (c *Cluster) Set(ctx context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := c.store.SetDatabase(ctx, name, mark); err != nil {
		return err
	}
	c.mirror.Await(ctx, name, mark)
	return nil
}
