// Package inventory reads what Kubernetes has of one cluster: its StatefulSets, Deployments,
// pods and claims, and the machines and volumes that they are on. It answers questions about
// what it has read, and decides and changes nothing.
package inventory

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Inventory is what Kubernetes has of a cluster. It is not changed once it is read, but that
// pods get the annotations that are written on them.
type Inventory struct {
	// NodeGroups are those of spec.nodes, which is always there, of spec.nodeGroups, and others that
	// there is something of, in this order.
	NodeGroups    []*NodeGroup
	EtcdSet       *appsv1.StatefulSet // nil: there is none
	Router, Envoy *appsv1.Deployment  // nil: there is none
	EtcdPods      map[int]*corev1.Pod // by ordinal
	EtcdClaims    map[int]*corev1.PersistentVolumeClaim
	Machines      map[string]*corev1.Node
	// FrontPods are how many pods routers and Envoy have.
	FrontPods map[string]int
	// EnvoyConfigs are the ConfigMaps with configurations of Envoy, and EnvoyConfigsUsed has the
	// names of those that its pods were made with.
	EnvoyConfigs     []corev1.ConfigMap
	EnvoyConfigsUsed map[string]bool
	// MetricsAtHTTPPort reports that a router's pod has no port of its own for metrics.
	MetricsAtHTTPPort bool
	// LoadBalancerHosts are those that the load balancer of the Service for clients tells, sorted.
	LoadBalancerHosts []string
	// EtcdGeneration is that of the ConfigMap that members of etcd start with.
	EtcdGeneration int64
	// PodMonitors and ServiceMonitors report that the Prometheus operator's kinds are there.
	PodMonitors, ServiceMonitors bool

	// hosts has machines by their label kubernetes.io/hostname, which volumes name.
	hosts map[string]string
	// volumeMachines has the only machine that can mount the volume of a claim, by its name;
	// lost has the claims whose volume does not exist any more.
	volumeMachines map[string]string
	lost           map[string]bool
}

// Workloads returns the StatefulSets and Deployments of a component that there are: several of nodes, if
// they are of several groups.
func (v *Inventory) Workloads(component string) (all []build.Object) {
	switch {
	case component == build.ComponentEtcd && v.EtcdSet != nil:
		return []build.Object{v.EtcdSet}
	case component == build.ComponentRouter && v.Router != nil:
		return []build.Object{v.Router}
	case component == build.ComponentEnvoy && v.Envoy != nil:
		return []build.Object{v.Envoy}
	case component == build.ComponentNode:
		for _, g := range v.NodeGroups {
			if g.Set != nil {
				all = append(all, g.Set)
			}
		}
	}
	return all
}

// MakesAnew reports whether pods of a Deployment are still to be made from its template.
func MakesAnew(d *appsv1.Deployment) bool {
	s := &d.Status
	return s.ObservedGeneration < d.Generation || s.UpdatedReplicas < s.Replicas
}

// UnusedEnvoyConfigs returns the configurations of Envoy that no pod has and none is to get: all but
// the one wanted, those of pods, and that of the Deployment. None while pods are made anew from its
// template, as older ones may come back until that is done.
func (v *Inventory) UnusedEnvoyConfigs(wanted string) (unused []*corev1.ConfigMap) {
	present := ""
	if d := v.Envoy; d != nil {
		if MakesAnew(d) {
			return nil
		}
		present = build.EnvoyConfig(&d.Spec.Template.Spec)
	}
	for i := range v.EnvoyConfigs {
		if config := &v.EnvoyConfigs[i]; config.Name != wanted && config.Name != present && !v.EnvoyConfigsUsed[config.Name] {
			unused = append(unused, config)
		}
	}
	return unused
}

// IsStopped reports whether a component exists and is to have no pods, as the cluster sleeps.
func (v *Inventory) IsStopped(component string) bool {
	workloads := v.Workloads(component)
	return len(workloads) > 0 && !slices.ContainsFunc(workloads, func(w build.Object) bool { return !isStopped(w) })
}

// IsAnyStopped is IsStopped for a part of the component, as of one that is being stopped or started.
func (v *Inventory) IsAnyStopped(component string) bool {
	return slices.ContainsFunc(v.Workloads(component), isStopped)
}

func isStopped(workload build.Object) bool {
	_, stopped := build.AwakeReplicas(&metav1.ObjectMeta{Annotations: workload.GetAnnotations()})
	return stopped
}

// Pods returns how many pods a component has, but for those whose machine cannot say that they
// have ended.
func (v *Inventory) Pods(component string) (n int) {
	var pods []*corev1.Pod
	switch component {
	case build.ComponentEtcd:
		pods = slices.Collect(maps.Values(v.EtcdPods))
	case build.ComponentNode:
		pods = v.NodePods()
	default:
		return v.FrontPods[component]
	}
	for _, pod := range pods {
		if v.runs(pod) {
			n++
		}
	}
	return n
}

// runs reports whether a pod is there, as far as its machine can say.
func (v *Inventory) runs(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	return !ended && (pod.Spec.NodeName == "" || !v.IsMachineDown(pod.Spec.NodeName))
}

// IsMachineDown reports whether a machine is not ready, or does not exist.
func (v *Inventory) IsMachineDown(name string) bool {
	machine := v.Machines[name]
	return machine == nil || notReadySince(machine) != nil
}

// VolumeMachine returns the only machine that can mount the volume of a claim; empty: others
// can, too, or nobody asked because its pod is ready.
func (v *Inventory) VolumeMachine(claim *corev1.PersistentVolumeClaim) string {
	return v.volumeMachines[claim.Name]
}

// IsVolumeLost reports whether the volume of a claim does not exist any more.
func (v *Inventory) IsVolumeLost(claim *corev1.PersistentVolumeClaim) bool {
	return v.lost[claim.Name]
}

// IsDataGone reports whether the data of a claim does not come back, as nobody can mount it
// again.
func (v *Inventory) IsDataGone(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	if claim == nil || v.lost[claim.Name] {
		return true
	}
	if name := v.volumeMachines[claim.Name]; name != "" {
		machine := v.Machines[name]
		if machine == nil || IsOutOfService(machine) {
			return true
		}
	}
	return claim.DeletionTimestamp != nil && (pod == nil || pod.Spec.NodeName == "")
}

// ReadyNodes returns how many storage nodes are ready.
func (v *Inventory) ReadyNodes() int {
	ready := 0
	for _, pod := range v.NodePods() {
		if IsReady(pod) && pod.DeletionTimestamp == nil {
			ready++
		}
	}
	return ready
}

// AnyPodRuns reports whether there are pods with volumes, but for those whose machine cannot
// say that they have ended.
func (v *Inventory) AnyPodRuns() bool {
	for _, pod := range slices.Concat(v.NodePods(), slices.Collect(maps.Values(v.EtcdPods))) {
		if pod.Spec.NodeName == "" || !v.IsMachineDown(pod.Spec.NodeName) {
			return true
		}
	}
	return false
}

// SetState reports whether pods of a StatefulSet are being made anew from its template, and
// whether all are ready but for those that no machine runs now. While pods wait for a maintenance
// window only those count whose restart a person asks for.
func (v *Inventory) SetState(set *appsv1.StatefulSet, pods map[int]*corev1.Pod, wait bool) (rolling, ready bool) {
	rolling, ready = set.Status.ObservedGeneration < set.Generation, true
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || v.IsMachineDown(pod.Spec.NodeName) {
			continue
		}
		due := IsOutdated(pod, set) && (!wait || IsRestartAsked(pod, set))
		rolling = rolling || due || pod.DeletionTimestamp != nil
		ready = ready && IsReady(pod)
	}
	return rolling, ready
}

// MostReady reports whether half of some pods or more are ready, of those that a machine runs now.
func (v *Inventory) MostReady(pods []*corev1.Pod) bool {
	all, ready := 0, 0
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || v.IsMachineDown(pod.Spec.NodeName) {
			continue
		}
		all++
		if IsReady(pod) {
			ready++
		}
	}
	return 2*ready >= all
}

// VolumeSizes returns the largest size of the claims of the nodes of spec.nodes and of etcd; nil: there are
// none.
func (v *Inventory) VolumeSizes() *v1alpha1.VolumeSizes {
	largest := func(claims map[int]*corev1.PersistentVolumeClaim) (size *resource.Quantity) {
		for _, claim := range claims {
			if is := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size == nil || is.Cmp(*size) > 0 {
				size = &is
			}
		}
		return size
	}
	sizes := v1alpha1.VolumeSizes{Node: largest(v.NodeGroups[0].Claims), Etcd: largest(v.EtcdClaims)}
	if sizes == (v1alpha1.VolumeSizes{}) {
		return nil
	}
	return &sizes
}

// Ordinal returns the number after a prefix and a hyphen, and false if there is none.
func Ordinal(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}
