// Package meshtest is a mesh.Mesh in memory: a placement store, and a status that a test
// sets.
package meshtest

import (
	"context"
	"sync"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/operator/mesh"
)

// Cluster is what stands behind meshes: it stays when they are closed.
type Cluster struct {
	Store *memstore.Server
	mu    struct {
		sync.Mutex
		status func() (*client.Status, error)
		cut    bool
	}
}

// NewCluster returns a cluster without nodes, whose routers do not answer.
func NewCluster() *Cluster {
	c := &Cluster{Store: memstore.NewServer()}
	c.mu.status = func() (*client.Status, error) { return nil, client.ErrUnavailable }
	return c
}

// SetStatus sets how routers answer.
func (c *Cluster) SetStatus(status func() (*client.Status, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.status = status
}

// SetReachable cuts all meshes off from the store, or joins them again.
func (c *Cluster) SetReachable(reachable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut = !reachable
}

func (c *Cluster) reachable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mu.cut
}

// Open is a mesh.Opener, whatever the target.
func (c *Cluster) Open(mesh.Target) (mesh.Mesh, error) {
	return &fake{cluster: c, store: c.Store.Open(shardmap.Seen{})}, nil
}

type fake struct {
	cluster *Cluster
	store   *memstore.Store
}

var _ mesh.Mesh = (*fake)(nil)

func (f *fake) look() *memstore.Store {
	f.store.SetReachable(f.cluster.reachable())
	return f.store
}

// View implements mesh.Mesh.
func (f *fake) View(ctx context.Context) (shardmap.View, error) {
	view, err := f.look().Load(ctx)
	if err == nil {
		err = view.Overtaken()
		view.Err = err
	}
	return view, err
}

// SetDesired implements mesh.Mesh.
func (f *fake) SetDesired(ctx context.Context, node string, desired shardmap.Desired) error {
	return f.look().SetDesired(ctx, node, desired)
}

// SetManager implements mesh.Mesh.
func (f *fake) SetManager(ctx context.Context, manager string) error {
	return f.look().SetManager(ctx, manager)
}

// Retire implements mesh.Mesh.
func (f *fake) Retire(ctx context.Context, node, incarnation string) error {
	return f.look().Retire(ctx, node, incarnation)
}

// Status implements mesh.Mesh.
func (f *fake) Status(context.Context) (*client.Status, error) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return f.cluster.mu.status()
}

// Close implements mesh.Mesh.
func (f *fake) Close() error { return f.store.Close() }
