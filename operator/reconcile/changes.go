package reconcile

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
)

// applySet applies one StatefulSet with the replicas that there are to be now.
func (p *pass) applySet(ctx context.Context, make func(build.Facts) *appsv1.StatefulSet) error {
	return p.apply(ctx, make(p.facts()))
}

// annotateClaim writes an annotation, or takes it away when value is empty. Only if the
// claim is the one that was looked at.
func (p *pass) annotateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, key, value string) error {
	if claim == nil {
		return nil
	}
	changed := claim.DeepCopy()
	if value == "" {
		delete(changed.Annotations, key)
	} else {
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[key] = value
	}
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotate volume claim %s: %w", claim.Name, err)
	}
	return nil
}

// deleteClaim deletes a claim, if it is still the one that was looked at.
func (p *pass) deleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim == nil {
		return nil
	}
	if err := p.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete volume claim %s: %w", claim.Name, err)
	}
	return nil
}

// endPod ends a pod, if it is still the one that was looked at. One that is ready is evicted, so
// that the budgets of the cluster and of others count; a budget that does not allow it now is a
// *budgetError. One that is not ready, or whose machine is lost, is deleted: a budget would
// keep it from being mended.
func (p *pass) endPod(ctx context.Context, pod *corev1.Pod, force bool) error {
	if pod == nil || force || !isReady(pod) {
		return p.deletePod(ctx, pod, force)
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	err := p.Client.SubResource("eviction").Create(ctx, pod, eviction)
	if apierrors.IsTooManyRequests(err) {
		return &budgetError{pod.Name, err}
	}
	if apierrors.IsInternalError(err) {
		// More than one budget names the pod, which the eviction API cannot serve: it would answer so for
		// ever. The rules of the caller say already that the cluster does without the pod.
		return p.deletePod(ctx, pod, false)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evict pod %s: %w", pod.Name, err)
	}
	return nil
}

// budgetError reports that a budget does not allow a pod to be evicted now.
type budgetError struct {
	pod string
	err error
}

func (e *budgetError) Error() string {
	return fmt.Sprintf("pod %s is to be restarted, and a PodDisruptionBudget does not allow it now (it counts pods that are not ready, also such as never were): %v", e.pod, e.err)
}

// deletePod deletes a pod, if it is still the one that was looked at; with force without
// waiting for its machine to say that it has ended.
func (p *pass) deletePod(ctx context.Context, pod *corev1.Pod, force bool) error {
	if pod == nil {
		return nil
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if err := p.Client.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}
