package reconcile

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// finish deletes the volumes of a cluster that is being deleted, as the policy says.
// Kubernetes deletes all other objects, which belong to the cluster. StatefulSets go
// before the claims, which they would make anew, and pods before that, which use them.
func (p *pass) finish(ctx context.Context) (Result, error) {
	p.Turns.Done(p.key(), p.now) // others need not wait until it is gone
	if err := p.Meshes.Drop(p.key()); err != nil && !errors.Is(err, context.Canceled) {
		p.event(corev1.EventTypeNormal, "Closing", "connections to the cluster: %v", err)
	}
	if !controllerutil.ContainsFinalizer(p.cluster, Finalizer) {
		return Result{}, nil
	}
	if err := p.observe(ctx); err != nil {
		return Result{}, err
	}
	sets := 0
	for _, set := range []*appsv1.StatefulSet{p.seen.nodeSet, p.seen.etcdSet} {
		if set == nil {
			continue
		}
		sets++
		if set.DeletionTimestamp != nil {
			continue
		}
		if err := p.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID}); client.IgnoreNotFound(err) != nil {
			return Result{}, fmt.Errorf("delete StatefulSet %s: %w", set.Name, err)
		}
	}
	if sets > 0 || p.podsRun() {
		return Result{After: intervalBusy}, nil
	}
	if p.cluster.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		if err := p.deleteClaims(ctx, p.seen.nodeClaims); err != nil {
			return Result{}, err
		}
	}
	if managed := p.cluster.Spec.Etcd.Managed; managed != nil && managed.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		if err := p.deleteClaims(ctx, p.seen.etcdClaims); err != nil {
			return Result{}, err
		}
	}
	return Result{}, p.setFinalizer(ctx, false)
}

// podsRun reports whether there are pods, but for those whose machine cannot say that they
// have ended.
func (p *pass) podsRun() bool {
	for _, pods := range []map[int]*corev1.Pod{p.seen.nodePods, p.seen.etcdPods} {
		for _, pod := range pods {
			if pod.Spec.NodeName == "" || !p.machineDown(pod.Spec.NodeName) {
				return true
			}
		}
	}
	return false
}

func (p *pass) deleteClaims(ctx context.Context, claims map[int]*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if err := p.deleteClaim(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}
