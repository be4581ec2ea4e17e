package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Finalizer of a TickMeshCluster keeps it until the volumes are deleted that its
// deletion policy names.
const Finalizer = v1alpha1.Group + "/volumes"

// Cluster makes one pass over a cluster: it looks, decides, makes the changes that can
// be made now, and writes the status. Errors are in the status, too; conflicts are no
// errors: what was decided is decided anew on what is there now.
func Cluster(ctx context.Context, s *Scope, m *Memory, c *v1alpha1.TickMeshCluster) (Result, error) {
	if acts, err := s.acts(ctx, m, c); err != nil || !acts {
		return Result{After: intervalQuiet}, err
	}
	p := &pass{Scope: s, memory: m, cluster: c, now: s.Now()}
	if c.DeletionTimestamp != nil {
		return p.finish(ctx)
	}
	if err := p.observe(ctx); err != nil {
		return Result{}, fmt.Errorf("observe: %w", err) // nothing can be said of the cluster
	}
	if c.Spec.Paused {
		p.Turns.Done(p.key(), p.now) // others need not wait until it goes on
	}
	// No step waits for another to end well: what is refused here must not keep a lost node
	// from being replaced there. A pause stops what the spec asks for, and nothing that
	// pods live by.
	for _, step := range []struct {
		name   string
		change bool // it stops while the cluster is paused
		run    func(context.Context) error
	}{
		{"Finalizer", true, p.finalizer},
		{"Certificates", false, p.certificates},
		{"Certificates", false, p.readCertificates},
		{"Etcd", false, func(ctx context.Context) error { p.lookAtEtcd(ctx); return nil }},
		{"Nodes", false, func(ctx context.Context) error { p.lookAtNodes(ctx); return nil }},
		{"Objects", true, p.objects},
		{"Volumes", true, p.volumes},
		{"Zones", false, p.zones},
		{"Etcd", true, p.keepEtcd},
		{"Nodes", true, p.keepNodes},
		{"Rescue", true, p.rescue},
		{"Rules", true, func(context.Context) error { return p.rulesErr }},
	} {
		if step.change && c.Spec.Paused {
			continue
		}
		if err := step.run(ctx); err != nil {
			p.failures = append(p.failures, failure{step.name, err})
		}
	}
	if err := errors.Join(p.writeStatus(ctx), problem(p.failures)); err != nil {
		return Result{}, err
	}
	if p.busy() {
		return Result{After: intervalBusy}, nil
	}
	return Result{After: intervalQuiet}, nil
}

// broken returns the failures that are no conflicts.
func broken(failures []failure) (all []failure) {
	for _, f := range failures {
		if !Conflict(f.err) {
			all = append(all, f)
		}
	}
	return all
}

// problem is the error of a pass; nil: none. It is a conflict only if nothing else failed.
func problem(failures []failure) error {
	told := broken(failures)
	if len(told) == 0 {
		told = failures[:min(1, len(failures))]
	}
	all := make([]error, 0, len(told))
	for _, f := range told {
		all = append(all, fmt.Errorf("%s: %w", f.step, f.err))
	}
	return errors.Join(all...)
}

// Conflict reports whether an error of Cluster says only that somebody else was faster.
func Conflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// deletesVolumes reports whether volumes go with the cluster.
func deletesVolumes(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete ||
		managedEtcd(c) && c.Spec.Etcd.Managed.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete
}

// finalizer makes the cluster wait for its volumes when it is deleted, if they go with it.
func (p *pass) finalizer(ctx context.Context) error {
	return p.setFinalizer(ctx, deletesVolumes(p.cluster))
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
