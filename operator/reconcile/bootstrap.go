package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/bootstrap"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// bootstrapFacts returns what is known before anything is looked at but Kubernetes.
func (p *pass) bootstrapFacts() bootstrap.Facts {
	c := p.cluster
	f := bootstrap.Facts{
		Asked: c.Spec.Bootstrap != nil, Name: build.BootstrapRestoreName(c), Skipped: c.Annotations[v1alpha1.AnnotationBootstrap] == v1alpha1.BootstrapSkip,
		Fresh: isFresh(p.seen) && c.Status.Shards == 0,
	}
	if c.Status.Bootstrap != nil {
		f.Phase = c.Status.Bootstrap.Phase
	}
	return f
}

// isFresh reports whether there is no StatefulSet or volume of nodes yet.
func isFresh(seen *inventory.Inventory) bool {
	return !slices.ContainsFunc(seen.NodeGroups, func(g *inventory.NodeGroup) bool { return g.Set != nil || len(g.Claims) > 0 })
}

// noteBootstrap writes down whether a cluster is new that is to begin with a backup, before
// anything is made that it could be told by.
func (p *pass) noteBootstrap(ctx context.Context) error {
	if p.cluster.Spec.Bootstrap == nil || p.cluster.Status.Bootstrap != nil {
		return nil
	}
	before, plan := p.cluster.DeepCopy(), bootstrap.Decide(p.bootstrapFacts())
	p.cluster.Status.Bootstrap = &v1alpha1.BootstrapStatus{Phase: plan.Phase}
	if err := objects.PatchStatus(ctx, p.Client, p.cluster, before); err != nil {
		return fmt.Errorf("write down what the cluster begins with: %w", err)
	}
	return nil
}

// bootstrapCluster decides how far a new cluster is with its backup, and makes the restore.
func (p *pass) bootstrapCluster(ctx context.Context) error {
	f := p.bootstrapFacts()
	p.bootstrap = bootstrap.Decide(f)
	if !p.bootstrap.Closed() {
		return nil
	}
	f.Restore, f.Unknown = p.bootstrapRestore(ctx, f.Name)
	f.Serves = p.nodes.serve()
	p.bootstrap = bootstrap.Decide(f)
	if f.Unknown != nil {
		return f.Unknown
	}
	if !p.bootstrap.Create || !p.takes(step{taken: unlessResting}) {
		return nil
	}
	if err := p.objects.Cached.Create(ctx, build.BootstrapRestore(p.cluster)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make TickMeshRestore %s: %w", f.Name, err)
	}
	return nil
}

// bootstrapRestore returns the restore that the cluster begins with; nil: there is none.
func (p *pass) bootstrapRestore(ctx context.Context, name string) (*v1alpha1.TickMeshRestore, error) {
	restore := &v1alpha1.TickMeshRestore{}
	found, err := p.objects.FindLive(ctx, name, restore)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for TickMeshRestore %s: %w", name, err)
	case !found:
		return nil, nil
	}
	return restore, ownership.CheckObject(p.cluster, v1alpha1.KindRestore, restore)
}

// bootstrapStatus returns its part of the status; nil: nothing is asked for.
func (p *pass) bootstrapStatus() *v1alpha1.BootstrapStatus {
	if p.bootstrap.Phase == "" {
		return nil
	}
	s := &v1alpha1.BootstrapStatus{}
	if p.cluster.Status.Bootstrap != nil {
		s = p.cluster.Status.Bootstrap.DeepCopy()
	}
	s.Phase = p.bootstrap.Phase
	switch s.Phase {
	case v1alpha1.BootstrapRestoring, v1alpha1.BootstrapFailed:
		s.RestoreName = build.BootstrapRestoreName(p.cluster)
	case v1alpha1.BootstrapComplete:
		if s.FinishedAt == nil {
			s.FinishedAt = &metav1.Time{Time: p.now}
		}
	case v1alpha1.BootstrapPending, v1alpha1.BootstrapSkipped:
	}
	return s
}

// serve reports whether all shards have a leader that answers.
func (n *storageNodes) serve() bool {
	status := n.known.Status
	if status == nil || len(status.ShardStatuses) == 0 || len(status.ShardStatuses) < int(status.Shards) {
		return false
	}
	for i := range status.ShardStatuses {
		if status.ShardStatuses[i].Leader == "" {
			return false
		}
	}
	return true
}
