package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// finish deletes the volumes of a cluster that is being deleted, as the policy says.
// Kubernetes deletes all other objects, which belong to the cluster. StatefulSets go
// before the claims, which they would make anew, and pods before that, which use them.
func finish(ctx context.Context, s *Scope, m *Memory, c *v1alpha1.TickMeshCluster) (Result, error) {
	s.Turns.Done(clusterKey(c), s.Now()) // others need not wait until it is gone
	if err := s.Meshes.Drop(clusterKey(c)); err != nil && !errors.Is(err, context.Canceled) {
		s.Events.Eventf(c, nil, corev1.EventTypeNormal, "Closing", "Reconcile", "connections to the cluster: %v", err)
	}
	if !controllerutil.ContainsFinalizer(c, Finalizer) {
		return Result{}, nil
	}
	p, err := newPass(ctx, s, m, c)
	if err != nil {
		return Result{}, err
	}
	sets := 0
	for _, set := range slices.Concat(p.seen.Workloads(build.ComponentNode), p.seen.Workloads(build.ComponentEtcd)) {
		sets++
		if set.GetDeletionTimestamp() != nil {
			continue
		}
		uid := set.GetUID()
		if err := p.Client.Delete(ctx, set, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return Result{}, fmt.Errorf("delete StatefulSet %s: %w", set.GetName(), err)
		}
	}
	if sets == 0 {
		for _, pod := range p.seen.NodePods() { // the StatefulSet was being made anew
			if err := p.objects.DeletePod(ctx, pod, false); err != nil {
				return Result{}, err
			}
		}
	}
	if sets > 0 || p.seen.AnyPodRuns() {
		return Result{After: intervalBusy}, nil
	}
	if c.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		for _, g := range p.seen.NodeGroups {
			if err := p.deleteClaims(ctx, g.Claims); err != nil {
				return Result{}, err
			}
		}
	}
	if managed := c.Spec.Etcd.Managed; managed != nil && managed.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		if err := p.deleteClaims(ctx, p.seen.EtcdClaims); err != nil {
			return Result{}, err
		}
	}
	return Result{}, p.setFinalizer(ctx, false)
}

func (p *pass) deleteClaims(ctx context.Context, claims map[int]*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if err := p.objects.DeleteClaim(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}
