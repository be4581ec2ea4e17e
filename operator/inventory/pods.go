package inventory

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/operator/build"
)

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return pod.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// IsRunning reports whether a container of the pod runs, as its machine said last.
func IsRunning(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].State.Running != nil {
			return true
		}
	}
	return false
}

// IsOutdated reports whether a pod was made from an older template than the present one of
// its StatefulSet; false while Kubernetes has not said which that is.
func IsOutdated(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	if set == nil || set.Status.UpdateRevision == "" || set.Status.ObservedGeneration < set.Generation {
		return false
	}
	return pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
}

// IsRestartAsked reports whether a person asks for the restart of a pod: the template of its
// StatefulSet was changed for that since it was made.
func IsRestartAsked(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	return IsOutdated(pod, set) && build.RestartedFor(&pod.ObjectMeta) != build.RestartedFor(&set.Spec.Template.ObjectMeta)
}

// notReadySince returns since when a machine is not ready; nil: it is.
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

// NotReadySinceMs returns since when a machine is not ready, in Unix milliseconds; 0: it is ready.
func NotReadySinceMs(machine *corev1.Node) int64 {
	since := notReadySince(machine)
	if since == nil {
		return 0
	}
	return max(since.UnixMilli(), 1)
}

// IsOutOfService reports whether a person or a tool says that a machine does not come back.
func IsOutOfService(machine *corev1.Node) bool {
	for i := range machine.Spec.Taints {
		if machine.Spec.Taints[i].Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// Replicas returns how many pods a StatefulSet asks for, or does when its cluster is awake; -1:
// there is none.
func Replicas(set *appsv1.StatefulSet) int {
	if set == nil {
		return -1
	}
	awake, stopped := build.AwakeReplicas(&set.ObjectMeta)
	switch {
	case stopped:
		return awake
	case set.Spec.Replicas == nil:
		return 1 // what Kubernetes makes of it
	}
	return int(*set.Spec.Replicas)
}
