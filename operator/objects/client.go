// Package objects changes the objects of one cluster in Kubernetes, one at a time: each only if it
// is the cluster's, and only if it is still the one that was looked at. What they are to be is
// somebody else's decision.
package objects

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

// FieldOwner owns the fields that the operator applies.
const FieldOwner = "tickmesh-operator"

// Client is the way to the objects of one cluster.
type Client struct {
	Cached  client.Client // its reads may be old
	Live    client.Reader // its reads are of now, and may be of what is not the cluster's
	cluster *v1alpha1.TickMeshCluster
	applied Applied
}

// New returns the way to the objects of a cluster. What it has applied it keeps in applied, so
// that nothing is applied twice.
func New(cached client.Client, live client.Reader, c *v1alpha1.TickMeshCluster, applied Applied) *Client {
	return &Client{cached, live, c, applied}
}

// Find reads an object of the cluster's namespace, which may be old, and returns false if there
// is none.
func (c *Client) Find(ctx context.Context, name string, into client.Object) (bool, error) {
	return inventory.Find(ctx, c.Cached, c.cluster.Namespace, name, into)
}

// FindLive is Find for an object as it is now.
func (c *Client) FindLive(ctx context.Context, name string, into client.Object) (bool, error) {
	return inventory.Find(ctx, c.Live, c.cluster.Namespace, name, into)
}

// PatchStatus writes what differs in the status of a cluster from before, if nobody has changed the
// cluster since; else it is a conflict.
func PatchStatus(ctx context.Context, to client.Client, c, before *v1alpha1.TickMeshCluster) error {
	return to.Status().Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
