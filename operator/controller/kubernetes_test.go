package controller_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// must ends the test.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// found reports whether an object that was asked for is there.
func (w *world) found(err error) bool {
	w.t.Helper()
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// controllers do what Kubernetes' own controllers and kubelets do, in an obvious way.
func (w *world) controllers() {
	w.t.Helper()
	var sets appsv1.StatefulSetList
	w.must(w.api.List(w.t.Context(), &sets, client.InNamespace(w.namespace)))
	for i := range sets.Items {
		w.runSet(&sets.Items[i])
	}
	w.endPods(sets.Items)
	w.endClaims()
	w.countDisruptions()
	var deployments appsv1.DeploymentList
	w.must(w.api.List(w.t.Context(), &deployments, client.InNamespace(w.namespace)))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		before := d.DeepCopy()
		d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, *d.Spec.Replicas
		d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = d.Status.Replicas, d.Status.Replicas, d.Status.Replicas
		if !equality.Semantic.DeepEqual(before.Status, d.Status) {
			w.must(w.api.Status().Patch(w.t.Context(), d, client.MergeFrom(before)))
		}
	}
}

// countDisruptions says of each budget how many pods may be evicted now.
func (w *world) countDisruptions() {
	w.t.Helper()
	var budgets policyv1.PodDisruptionBudgetList
	w.must(w.api.List(w.t.Context(), &budgets, client.InNamespace(w.namespace)))
	for i := range budgets.Items {
		budget := &budgets.Items[i]
		var pods corev1.PodList
		w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels(budget.Spec.Selector.MatchLabels)))
		before, healthy := budget.DeepCopy(), 0
		for j := range pods.Items {
			if conditions := pods.Items[j].Status.Conditions; pods.Items[j].DeletionTimestamp == nil && len(conditions) > 0 && conditions[0].Status == corev1.ConditionTrue {
				healthy++
			}
		}
		desired := len(pods.Items) - budget.Spec.MaxUnavailable.IntValue()
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, ExpectedPods: int32(len(pods.Items)), CurrentHealthy: int32(healthy),
			DesiredHealthy: int32(max(desired, 0)), DisruptionsAllowed: int32(max(healthy-max(desired, 0), 0)),
		}
		if w.noDisruption {
			budget.Status.DisruptionsAllowed = 0
		}
		if !equality.Semantic.DeepEqual(before.Status, budget.Status) {
			w.must(w.api.Status().Update(w.t.Context(), budget))
		}
	}
}

// revision is the name of a template.
func revision(set *appsv1.StatefulSet) string {
	h := fnv.New64a()
	encoded, _ := set.Spec.Template.Marshal() // a buffer takes it
	_, _ = h.Write(encoded)
	return fmt.Sprintf("%s-%x", set.Name, h.Sum64())
}

func (w *world) runSet(set *appsv1.StatefulSet) {
	w.t.Helper()
	if set.DeletionTimestamp != nil {
		w.leaveAlone(set)
		return
	}
	w.adopt(set)
	if is := revision(set); set.Status.UpdateRevision != is || set.Status.ObservedGeneration != set.Generation {
		before := set.DeepCopy()
		set.Status.UpdateRevision, set.Status.ObservedGeneration, set.Status.Replicas = is, set.Generation, *set.Spec.Replicas
		w.must(w.api.Status().Patch(w.t.Context(), set, client.MergeFrom(before)))
	}
	for ordinal := range int(*set.Spec.Replicas) {
		w.runPod(set, fmt.Sprintf("%s-%d", set.Name, ordinal))
	}
}

// leaveAlone ends the deletion of a set whose pods are to stay, as the garbage collector does.
func (w *world) leaveAlone(set *appsv1.StatefulSet) {
	w.t.Helper()
	if !slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents) {
		return
	}
	for _, pod := range w.podsOf(set) {
		if metav1.IsControlledBy(pod, set) {
			before := pod.DeepCopy()
			pod.OwnerReferences = nil
			w.must(client.IgnoreNotFound(w.api.Patch(w.t.Context(), pod, client.MergeFrom(before))))
		}
	}
	before := set.DeepCopy()
	set.Finalizers = nil
	w.must(client.IgnoreNotFound(w.api.Patch(w.t.Context(), set, client.MergeFrom(before))))
}

// adopt takes pods over that belong to nobody.
func (w *world) adopt(set *appsv1.StatefulSet) {
	w.t.Helper()
	for _, pod := range w.podsOf(set) {
		if metav1.GetControllerOf(pod) == nil && pod.DeletionTimestamp == nil {
			before := pod.DeepCopy()
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			w.must(w.api.Patch(w.t.Context(), pod, client.MergeFrom(before)))
		}
	}
}

// podsOf returns the pods that a set selects, and that are its own by their names.
func (w *world) podsOf(set *appsv1.StatefulSet) (pods []*corev1.Pod) {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)))
	for i := range list.Items {
		if name := list.Items[i].Name; name[:strings.LastIndex(name, "-")] == set.Name {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods
}

// runPod makes a pod and its claim, and lets it start.
func (w *world) runPod(set *appsv1.StatefulSet, name string) {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if !w.found(w.api.Get(w.t.Context(), w.key("data-"+name), claim)) {
		template := set.Spec.VolumeClaimTemplates[0].DeepCopy()
		claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "data-" + name, Namespace: w.namespace, Labels: template.Labels, Annotations: template.Annotations,
		}, Spec: template.Spec}
		w.must(w.api.Create(w.t.Context(), claim))
	}
	pod := &corev1.Pod{}
	if !w.found(w.api.Get(w.t.Context(), w.key(name), pod)) {
		if claim.DeletionTimestamp != nil {
			return
		}
		pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Name, pod.Namespace, pod.ResourceVersion = name, w.namespace, ""
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		pod.Labels[appsv1.StatefulSetRevisionLabel] = revision(set)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		pod.Spec.PriorityClassName = ""
		w.must(w.api.Create(w.t.Context(), pod))
	}
	if pod.DeletionTimestamp == nil && claim.DeletionTimestamp == nil {
		w.schedule(pod, claim)
	}
	w.kubelet(pod)
}

// schedule binds a pod to a machine, and its claim to a volume there.
func (w *world) schedule(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	if pod.Spec.NodeName != "" {
		return
	}
	machine := w.volumeMachine(claim)
	if machine == "" {
		machine = w.freeMachine(pod.Labels[build.LabelComponent])
	}
	if machine == "" || !w.machines[machine] {
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: w.namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: machine}}
	w.must(w.api.SubResource("binding").Create(w.t.Context(), pod, binding))
	pod.Spec.NodeName = machine
	if claim.Spec.VolumeName != "" {
		return
	}
	w.disks++
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", w.namespace, w.disks)}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{machine}}},
		}}}},
	}
	w.must(w.api.Create(w.t.Context(), volume))
	before := claim.DeepCopy()
	claim.Spec.VolumeName = volume.Name
	w.must(w.api.Patch(w.t.Context(), claim, client.MergeFrom(before)))
	before = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	w.must(w.api.Status().Patch(w.t.Context(), claim, client.MergeFrom(before)))
}

func (w *world) volumeMachine(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.VolumeName == "" {
		return ""
	}
	volume := &corev1.PersistentVolume{}
	if !w.found(w.api.Get(w.t.Context(), types.NamespacedName{Name: claim.Spec.VolumeName}, volume)) {
		return ""
	}
	return volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

// freeMachine returns a machine without a pod of a component, or with a volume of one: etcd
// gets the last ones, so that a test can take a machine of it away and of no node.
func (w *world) freeMachine(component string) string {
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: component}))
	taken := map[string]bool{}
	for i := range pods.Items {
		taken[pods.Items[i].Spec.NodeName] = true
	}
	var claims corev1.PersistentVolumeClaimList
	w.must(w.api.List(w.t.Context(), &claims, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: component}))
	for i := range claims.Items {
		taken[w.volumeMachine(&claims.Items[i])] = true
	}
	var names []string
	for name, up := range w.machines {
		if up && !taken[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if component == build.ComponentEtcd {
		return slices.Max(names)
	}
	return slices.Min(names)
}

// kubelet lets a pod run, or not.
func (w *world) kubelet(pod *corev1.Pod) {
	w.t.Helper()
	if pod.Spec.NodeName == "" {
		return
	}
	runs := w.machines[pod.Spec.NodeName] && pod.DeletionTimestamp == nil && w.zoned(pod) && w.certified(pod)
	if up := w.machines[pod.Spec.NodeName]; !up {
		w.setReady(pod, false, true) // nobody says that it has stopped
		return
	}
	w.setReady(pod, runs && w.processReady(pod), runs)
}

// zoned reports whether a node's pod knows its zone: it waits for that.
func (w *world) zoned(pod *corev1.Pod) bool {
	return pod.Labels[build.LabelComponent] != build.ComponentNode || pod.Annotations[build.AnnotationZone] != ""
}

// certified reports whether a pod that keeps its key has a certificate of it; it waits for one.
func (w *world) certified(pod *corev1.Pod) bool {
	w.t.Helper()
	if !build.KeepsKey(&pod.Spec) || !w.machines[pod.Spec.NodeName] {
		return true
	}
	if w.podKeys[pod.UID] == nil {
		w.ask(pod, certificate.Name{Cluster: clusterName, Role: certificate.RoleNode, ID: pod.Name})
	}
	leaf, err := pki.ReadAnnotated(pod)
	return err == nil && w.podKeys[pod.UID].PublicKey.Equal(leaf.Certificate.PublicKey)
}

// ask has a pod make a key, and ask for its certificate under a name.
func (w *world) ask(pod *corev1.Pod, name certificate.Name) {
	w.t.Helper()
	key, err := certificate.NewKey()
	w.must(err)
	request, err := certificate.EncodeRequest(name, key)
	w.must(err)
	before := pod.DeepCopy()
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: build.ContainerRequest, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(request)}},
	}}
	w.must(w.api.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)))
	w.podKeys[pod.UID] = key
}

func (w *world) setReady(pod *corev1.Pod, ready, running bool) {
	w.t.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	if len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == status && (len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil) == running {
		return
	}
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name}
	if running {
		container.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}
	} else {
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{container}
	w.must(w.api.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)))
}

// endPods deletes pods that are more than their set wants, and lets those end that are
// told to, if their machine is up.
func (w *world) endPods(sets []appsv1.StatefulSet) {
	w.t.Helper()
	wanted := map[string]bool{}
	for i := range sets {
		for ordinal := range int(*sets[i].Spec.Replicas) {
			if sets[i].DeletionTimestamp == nil || slices.Contains(sets[i].Finalizers, metav1.FinalizerOrphanDependents) {
				wanted[fmt.Sprintf("%s-%d", sets[i].Name, ordinal)] = true
			}
		}
	}
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace)))
	for i := range pods.Items {
		pod := &pods.Items[i]
		alone := metav1.GetControllerOf(pod) == nil // until a set takes it over
		ends := pod.DeletionTimestamp != nil || !wanted[pod.Name] && !alone
		switch up := w.machines[pod.Spec.NodeName] || pod.Spec.NodeName == ""; {
		case ends && up:
			w.stopProcess(pod.Name)
			w.must(client.IgnoreNotFound(w.api.Delete(w.t.Context(), pod, client.GracePeriodSeconds(0))))
		case ends && pod.DeletionTimestamp == nil:
			w.must(client.IgnoreNotFound(w.api.Delete(w.t.Context(), pod)))
		}
	}
}

// endClaims lets claims go that no pod uses.
func (w *world) endClaims() {
	w.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	w.must(w.api.List(w.t.Context(), &claims, client.InNamespace(w.namespace)))
	for i := range claims.Items {
		claim := &claims.Items[i]
		pod := &corev1.Pod{}
		used := w.found(w.api.Get(w.t.Context(), w.key(strings.TrimPrefix(claim.Name, "data-")), pod)) && pod.Spec.NodeName != ""
		if claim.DeletionTimestamp == nil || used {
			continue
		}
		before := claim.DeepCopy()
		claim.Finalizers = nil
		w.must(client.IgnoreNotFound(w.api.Patch(w.t.Context(), claim, client.MergeFrom(before))))
	}
}

// rejoinMachine brings a machine back that was removed.
func (w *world) rejoinMachine(name string) {
	w.t.Helper()
	w.must(w.api.Create(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "z0"}}}))
	w.setMachine(name, true)
}

// addMachine makes a machine that is up.
func (w *world) addMachine(zone string) string {
	w.t.Helper()
	name := fmt.Sprintf("%s-m%d", w.namespace, len(w.machines))
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}}}
	w.must(w.api.Create(w.t.Context(), machine))
	w.machines[name] = true
	w.setMachine(name, true)
	w.t.Cleanup(func() { _ = w.api.Delete(w.background, machine) })
	return name
}

// setMachine switches a machine on or off.
func (w *world) setMachine(name string, up bool) {
	w.t.Helper()
	w.machines[name] = up
	machine := &corev1.Node{}
	if !w.found(w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, machine)) {
		return
	}
	before := machine.DeepCopy()
	status := corev1.ConditionUnknown
	if up {
		status = corev1.ConditionTrue
	}
	machine.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(w.now.Truncate(time.Second))}}
	w.must(w.api.Status().Patch(w.t.Context(), machine, client.MergeFrom(before)))
}

// removeMachine takes a machine away for ever.
func (w *world) removeMachine(name string) {
	w.t.Helper()
	w.machines[name] = false
	w.must(w.api.Delete(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}
