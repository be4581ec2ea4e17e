package mesh

import (
	"context"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Mesh is one cluster. It is safe for concurrent use; each call ends within a bounded
// time.
type Mesh interface {
	// View returns what the placement store has. Errors: those of shardmap.Store.Load;
	// shardmap.ErrRolledBack or ErrWrongCluster, too, when a live node knows a newer map
	// than the store has. The view is then the last good one, with Err.
	View(ctx context.Context) (shardmap.View, error)
	// SetDesired returns what is wanted of a node; "" forgets the node.
	SetDesired(ctx context.Context, node string, desired shardmap.Desired) error
	// SetManager sets who alone may say what is desired; "": anybody.
	SetManager(ctx context.Context, manager string) error
	// Retire retires a data folder. Errors: shardmap.ErrNodeHeld: it is in use.
	Retire(ctx context.Context, node, incarnation string) error
	// Status asks a router, which asks all nodes. Errors: those of client.Client.
	Status(ctx context.Context) (*client.Status, error)
	// Close ends the connections.
	Close() error
}

// TLS is what a connection is encrypted with, as PEM.
type TLS struct{ Cert, Key, CABundle string }

// Target describes where a cluster is. Two equal ones are the same cluster, reached in the
// same way.
type Target struct {
	Cluster   string // its name in the store
	Etcd      string // URLs, with commas between
	EtcdTLS   TLS    // zero: without
	Router    string // host:port of the gRPC API
	RouterTLS TLS    // zero: without
	Token     string // which routers are shown; empty: none
}

// Opener provides a Mesh. It does not wait for the cluster.
type Opener func(Target) (Mesh, error)
