package objects

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

// AnnotateClaim writes an annotation, or takes it away when value is empty. Only if the
// claim is the one that was looked at.
func (c *Client) AnnotateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, key, value string) error {
	if claim == nil {
		return nil
	}
	return c.ChangeClaim(ctx, claim, func(changed *corev1.PersistentVolumeClaim) {
		if value == "" {
			delete(changed.Annotations, key)
		} else {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, key, value)
		}
	})
}

// ChangeClaim changes a claim, if nobody else has since it was looked at.
func (c *Client) ChangeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaim)) error {
	changed := claim.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := c.Cached.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change volume claim %s: %w", claim.Name, err)
	}
	return nil
}

// DeleteClaim deletes a claim, if it is still the one that was looked at.
func (c *Client) DeleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim == nil {
		return nil
	}
	if err := c.Cached.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete volume claim %s: %w", claim.Name, err)
	}
	return nil
}

// DeleteAlone deletes a StatefulSet and leaves its pods, if it is still the one that was looked at.
func (c *Client) DeleteAlone(ctx context.Context, set *appsv1.StatefulSet) error {
	conditions := client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion}
	if err := c.Cached.Delete(ctx, set, conditions, client.PropagationPolicy(metav1.DeletePropagationOrphan)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StatefulSet %s alone: %w", set.Name, err)
	}
	delete(c.applied, "StatefulSet/"+set.Name)
	return nil
}

// DeleteEmpty deletes a StatefulSet that has no pods, if it is still as it was looked at: nobody has told
// it to have some meanwhile.
func (c *Client) DeleteEmpty(ctx context.Context, set *appsv1.StatefulSet) error {
	err := c.Cached.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StatefulSet %s: %w", set.Name, err)
	}
	delete(c.applied, "StatefulSet/"+set.Name)
	return nil
}

// EndPod ends a pod, if it is still the one that was looked at. One that is ready is evicted, so
// that the budgets of the cluster and of others count; a budget that does not allow it now is a
// *BudgetError, unless only pods that have not begun to run use it up. One that is not ready, or
// whose machine is lost, is deleted: a budget would keep it from being mended.
func (c *Client) EndPod(ctx context.Context, pod *corev1.Pod, force bool) error {
	if pod == nil || force || !inventory.IsReady(pod) {
		return c.DeletePod(ctx, pod, force)
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	err := c.Cached.SubResource("eviction").Create(ctx, pod, eviction)
	if apierrors.IsTooManyRequests(err) {
		switch idle, lookErr := c.isUsedUpByIdle(ctx, pod); {
		case lookErr != nil: // it is unknown whether it is the budget that the pod has to wait for
			return fmt.Errorf("evict pod %s: %w", pod.Name, errors.Join(err, lookErr))
		case !idle:
			return &BudgetError{pod.Name, err}
		}
		return c.DeletePod(ctx, pod, false)
	}
	if apierrors.IsInternalError(err) {
		// More than one budget names the pod, which the eviction API cannot serve: it would answer so for
		// ever. The rules of the caller say already that the cluster does without the pod.
		return c.DeletePod(ctx, pod, false)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evict pod %s: %w", pod.Name, err)
	}
	return nil
}

// isUsedUpByIdle reports whether the budget that the cluster itself has made for a pod is used up by
// pods only that have not begun to run, as they find no machine or image: then the pod may be
// deleted all the same. As the budget allows nothing, nobody else ends another pod meanwhile.
func (c *Client) isUsedUpByIdle(ctx context.Context, pod *corev1.Pod) (bool, error) {
	budget := &policyv1.PodDisruptionBudget{}
	found, err := c.FindLive(ctx, build.Name(c.cluster, pod.Labels[build.LabelComponent]), budget)
	if err != nil || !found || !c.Owns(budget) {
		return false, err
	}
	var pods corev1.PodList
	if err := c.Live.List(ctx, &pods, client.InNamespace(pod.Namespace), client.MatchingLabels(budget.Spec.Selector.MatchLabels)); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	return allowsWithoutIdle(budget, pods.Items), nil
}

// allowsWithoutIdle reports whether a budget would allow a pod to be ended if pods that have not
// begun to run were healthy.
func allowsWithoutIdle(budget *policyv1.PodDisruptionBudget, pods []corev1.Pod) bool {
	s, idle := &budget.Status, int32(0)
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodPending && pods[i].DeletionTimestamp == nil {
			idle++
		}
	}
	return s.ObservedGeneration >= budget.Generation && len(s.DisruptedPods) == 0 && s.CurrentHealthy < s.DesiredHealthy+1 && s.CurrentHealthy+idle > s.DesiredHealthy
}

// BudgetError reports that a budget does not allow a pod to be evicted now.
type BudgetError struct {
	pod string
	err error
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("pod %s is to be restarted, and a PodDisruptionBudget does not allow it now (it counts pods that are not ready, also such as never were): %v", e.pod, e.err)
}

// DeletePod deletes a pod whatever budgets say, if it is still the one that was looked at; with force
// without waiting for its machine to say that it has ended.
func (c *Client) DeletePod(ctx context.Context, pod *corev1.Pod, force bool) error {
	if pod == nil {
		return nil
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if err := c.Cached.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}
