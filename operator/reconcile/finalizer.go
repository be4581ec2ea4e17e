package reconcile

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Finalizer of a TickMeshCluster keeps it until the volumes are deleted that its
// deletion policy names, and until the pods are that have no StatefulSet for a moment.
const Finalizer = v1alpha1.Group + "/volumes"

// deletesVolumes reports whether volumes go with the cluster.
func deletesVolumes(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete ||
		c.Spec.Etcd.Managed != nil && c.Spec.Etcd.Managed.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete
}

// finalizer makes the cluster wait for its volumes when it is deleted, if they go with it, and for
// its pods while nobody else would delete them.
func (p *pass) finalizer(ctx context.Context) error {
	return p.setFinalizer(ctx, deletesVolumes(p.cluster) || changesClaims(p.cluster, p.seen))
}

func (p *pass) setFinalizer(ctx context.Context, wanted bool) error {
	if controllerutil.ContainsFinalizer(p.cluster, Finalizer) == wanted {
		return nil
	}
	before := p.cluster.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(p.cluster, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(p.cluster, Finalizer)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	changed := p.cluster.DeepCopy()
	if err := p.Client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizer: %w", err)
	}
	p.cluster.ResourceVersion = changed.ResourceVersion
	return nil
}
