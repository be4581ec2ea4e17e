package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/report"
)

// Finalizer of a TickMeshCluster keeps it until the volumes are deleted that its
// deletion policy names, and until the pods are that have no StatefulSet for a moment.
const Finalizer = v1alpha1.Group + "/volumes"

// Cluster makes one pass over a cluster: it looks, decides, makes the changes that can
// be made now, and writes the status. Errors are in the status, too; conflicts are no
// errors: what was decided is decided anew on what is there now.
func Cluster(ctx context.Context, s *Scope, m *Memory, c *v1alpha1.TickMeshCluster) (Result, error) {
	if acts, err := s.acts(ctx, m, c); err != nil || !acts {
		return Result{After: intervalIdle}, err
	}
	if c.DeletionTimestamp != nil {
		return finish(ctx, s, m, c)
	}
	p, err := newPass(ctx, s, m, c)
	if err == nil {
		err = errors.Join(p.nameStore(ctx), p.noteBootstrap(ctx), p.checkRebuild(ctx))
	}
	if err != nil {
		return Result{}, fmt.Errorf("observe: %w", err) // nothing can be said of the cluster
	}
	if c.Spec.Paused {
		p.templates.turn.done() // others need not wait until it goes on
	}
	for _, step := range p.steps() {
		if !p.takes(step) {
			continue
		}
		if err := step.run(ctx); err != nil {
			p.failures = append(p.failures, report.Failure{Step: step.name, Err: err})
		}
	}
	if err := errors.Join(p.writeStatus(ctx), problem(p.failures)); err != nil {
		return Result{}, err
	}
	if report.Busy(c, &p.nodes.known) {
		return Result{After: intervalBusy}, nil
	}
	return Result{After: intervalIdle}, nil
}

// broken returns the failures that are no conflicts.
func broken(failures []report.Failure) (all []report.Failure) {
	for _, f := range failures {
		if !Conflict(f.Err) {
			all = append(all, f)
		}
	}
	return all
}

// problem is the error of a pass; nil: none. It is a conflict only if nothing else failed.
func problem(failures []report.Failure) error {
	told := broken(failures)
	if len(told) == 0 {
		told = failures[:min(1, len(failures))]
	}
	return report.Join(told)
}

// Conflict reports whether an error of Cluster means only that somebody else was faster.
func Conflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

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
