package reconcile

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func isReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return pod.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// isRunning reports whether a container of the pod runs, as its machine said last.
func isRunning(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].State.Running != nil {
			return true
		}
	}
	return false
}

// isOutdated reports whether a pod was made from an older template than the present one of
// its StatefulSet; false while Kubernetes has not said which that is.
func isOutdated(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	if set == nil || set.Status.UpdateRevision == "" || set.Status.ObservedGeneration < set.Generation {
		return false
	}
	return pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
}

// notReadySince says since when a machine is not ready; nil: it is.
func notReadySince(machine *corev1.Node) *metav1.Time {
	for i := range machine.Status.Conditions {
		if condition := &machine.Status.Conditions[i]; condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return &condition.LastTransitionTime
		}
	}
	return &machine.CreationTimestamp
}

// notReadySinceMs is notReadySince in Unix milliseconds; 0: it is ready.
func notReadySinceMs(machine *corev1.Node) int64 {
	since := notReadySince(machine)
	if since == nil {
		return 0
	}
	return max(since.UnixMilli(), 1)
}

func isOutOfService(machine *corev1.Node) bool {
	for i := range machine.Spec.Taints {
		if machine.Spec.Taints[i].Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

func replicasOf(set *appsv1.StatefulSet) int {
	switch {
	case set == nil:
		return -1
	case set.Spec.Replicas == nil:
		return 1 // what Kubernetes makes of it
	}
	return int(*set.Spec.Replicas)
}
