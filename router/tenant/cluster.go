package tenant

import (
	"context"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Cluster keeps marks in the placement store of a cluster.
type Cluster struct {
	store shardmap.Store

	mu struct {
		sync.Mutex
		marks   map[string]shardmap.DatabaseMark
		changed chan struct{} // closed by the next view
	}
}

// NewCluster makes a Cluster that is to be told of all views of the store by See.
func NewCluster(store shardmap.Store) *Cluster {
	c := &Cluster{store: store}
	c.mu.changed = make(chan struct{})
	return c
}

// See takes what the store says now.
func (c *Cluster) See(view shardmap.View) {
	if view.Databases == nil { // it could not be read yet
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.marks = view.Databases
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// All implements Marks.
func (c *Cluster) All() map[string]shardmap.DatabaseMark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.marks
}

// seenMax bounds how long Set waits for the store's watch to tell of what it has stored.
const seenMax = 2 * time.Second

// Set implements Marks. What is set is seen by All afterwards, unless the watch is slow.
func (c *Cluster) Set(ctx context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := c.store.SetDatabase(ctx, name, mark); err != nil {
		return err
	}
	timer := time.NewTimer(seenMax)
	defer timer.Stop()
	for {
		c.mu.Lock()
		seen, changed := c.mu.marks[name] == mark, c.mu.changed
		c.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
