package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// reading is an Inventory that is being read.
type reading struct {
	*Inventory
	cached  client.Client // its reads may be old
	live    client.Reader // its reads are of now
	cluster *v1alpha1.TickMeshCluster
}

// Read reads what Kubernetes has of a cluster. StatefulSets, pods and claims are read from live,
// as they are now: on older ones a second node could be restarted while the first one is, or
// replicas be put back to what they were. All else is read from cached.
func Read(ctx context.Context, cached client.Client, live client.Reader, c *v1alpha1.TickMeshCluster) (_ *Inventory, err error) {
	v := &Inventory{}
	r := &reading{v, cached, live, c}
	if v.EtcdSet, err = r.statefulSet(ctx, build.Name(c, build.ComponentEtcd)); err != nil {
		return nil, err
	}
	if v.Router, err = r.deployment(ctx, build.Name(c, build.ComponentRouter)); err != nil {
		return nil, err
	}
	if v.Envoy, err = r.deployment(ctx, build.Name(c, build.ComponentEnvoy)); err != nil {
		return nil, err
	}
	if v.EtcdPods, err = r.pods(ctx, build.ComponentEtcd); err != nil {
		return nil, err
	}
	if v.EtcdClaims, err = r.claims(ctx, build.ComponentEtcd, Replicas(v.EtcdSet)); err != nil {
		return nil, err
	}
	if err = r.readNodes(ctx); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context) error{r.readMachines, r.readFront, r.readEnvoyConfigs, r.readEtcdGeneration, r.readLoadBalancerHosts, r.readVolumes} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	v.PodMonitors, v.ServiceMonitors = r.hasKind(build.KindPodMonitor), r.hasKind(build.KindServiceMonitor)
	return v, nil
}

// readFront counts the pods of routers and Envoy, and finds out whether a router has no port of
// its own for metrics.
func (r *reading) readFront(ctx context.Context) error {
	r.FrontPods, r.EnvoyConfigsUsed = map[string]int{}, map[string]bool{}
	for _, component := range []string{build.ComponentRouter, build.ComponentEnvoy} {
		var list corev1.PodList
		if err := r.cached.List(ctx, &list, r.selects(component)...); err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			// One that was evicted from its machine stays in the list, and is asked for nothing any more.
			ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
			if component == build.ComponentEnvoy && !ended {
				r.EnvoyConfigsUsed[build.EnvoyConfig(&pod.Spec)] = true
			}
			if r.runs(pod) {
				r.FrontPods[component]++
			}
			r.MetricsAtHTTPPort = r.MetricsAtHTTPPort || component == build.ComponentRouter && !ended && !build.HasMetricsPort(&pod.Spec)
		}
	}
	return nil
}

// readEnvoyConfigs lists the configurations of Envoy that there are.
func (r *reading) readEnvoyConfigs(ctx context.Context) error {
	var list corev1.ConfigMapList
	if err := r.cached.List(ctx, &list, r.selects(build.ComponentEnvoy)...); err != nil {
		return fmt.Errorf("list configurations of Envoy: %w", err)
	}
	r.EnvoyConfigs = list.Items
	return nil
}

// readLoadBalancerHosts reads the names that a load balancer tells of itself, in order: it may tell
// them in another one each time.
func (r *reading) readLoadBalancerHosts(ctx context.Context) error {
	service := &corev1.Service{}
	if found, err := r.find(ctx, r.cached, build.ClientServiceName(r.cluster), service); !found {
		return err
	}
	for i := range service.Status.LoadBalancer.Ingress {
		if host := service.Status.LoadBalancer.Ingress[i].Hostname; host != "" {
			r.LoadBalancerHosts = append(r.LoadBalancerHosts, host)
		}
	}
	slices.Sort(r.LoadBalancerHosts)
	return nil
}

// readEtcdGeneration reads the generation of the ConfigMap that members of etcd start with.
func (r *reading) readEtcdGeneration(ctx context.Context) error {
	if r.cluster.Spec.Etcd.Managed == nil {
		return nil
	}
	config := &corev1.ConfigMap{}
	found, err := r.find(ctx, r.cached, build.Name(r.cluster, build.ComponentEtcd), config)
	if !found {
		return err
	}
	// What cannot be read was written by somebody else, and is put back.
	r.EtcdGeneration, _ = strconv.ParseInt(config.Annotations[build.AnnotationEtcdGeneration], 10, 64)
	return nil
}

// monitorGroup is the group of the Prometheus operator's kinds.
const monitorGroup = "monitoring.coreos.com"

// hasKind reports whether Kubernetes has one of the Prometheus operator's kinds.
func (r *reading) hasKind(kind string) bool {
	_, err := r.cached.RESTMapper().RESTMapping(schema.GroupKind{Group: monitorGroup, Kind: kind}, "v1")
	return err == nil
}

// Find reads an object of a namespace, and returns false if there is none.
func Find(ctx context.Context, from client.Reader, namespace, name string, into client.Object) (found bool, err error) {
	err = from.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *reading) find(ctx context.Context, from client.Reader, name string, into client.Object) (bool, error) {
	return Find(ctx, from, r.cluster.Namespace, name, into)
}

// statefulSet returns a StatefulSet of the cluster; nil: there is none. That of somebody else
// is not looked at, and is told of when it is in the way.
func (r *reading) statefulSet(ctx context.Context, name string) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := r.find(ctx, r.live, name, set)
	if !found || ownership.CheckObject(r.cluster, "StatefulSet", set) != nil {
		return nil, err
	}
	return set, nil
}

// deployment is statefulSet for a Deployment.
func (r *reading) deployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	found, err := r.find(ctx, r.cached, name, d)
	if !found || ownership.CheckObject(r.cluster, "Deployment", d) != nil {
		return nil, err
	}
	return d, nil
}

func (r *reading) selects(component string) []client.ListOption {
	return []client.ListOption{client.InNamespace(r.cluster.Namespace), client.MatchingLabels(build.Selector(r.cluster, component))}
}

func (r *reading) pods(ctx context.Context, component string) (map[int]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.live.List(ctx, &list, r.selects(component)...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := map[int]*corev1.Pod{}
	for i := range list.Items {
		if ordinal, ok := Ordinal(list.Items[i].Name, build.Name(r.cluster, component)); ok {
			pods[ordinal] = &list.Items[i]
		}
	}
	return pods, nil
}

// claims returns the claims of a component by ordinal; those of the first expected pods even if
// they have no labels.
func (r *reading) claims(ctx context.Context, component string, expected int) (map[int]*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := r.live.List(ctx, &list, r.selects(component)...); err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	claims := map[int]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if ordinal, ok := Ordinal(list.Items[i].Name, build.ClaimName(build.Name(r.cluster, component))); ok {
			claims[ordinal] = &list.Items[i]
		}
	}
	for ordinal := range expected {
		if claims[ordinal] != nil {
			continue
		}
		// Somebody may have taken its labels away: its data is still there.
		claim := &corev1.PersistentVolumeClaim{}
		found, err := r.find(ctx, r.live, build.ClaimName(build.PodName(r.cluster, component, int32(ordinal))), claim)
		if err != nil {
			return nil, fmt.Errorf("look at a volume claim: %w", err)
		}
		if found {
			claims[ordinal] = claim
		}
	}
	return claims, nil
}

func (r *reading) readMachines(ctx context.Context) error {
	var list corev1.NodeList
	if err := r.cached.List(ctx, &list); err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	r.Machines, r.hosts = map[string]*corev1.Node{}, map[string]string{}
	for i := range list.Items {
		machine := &list.Items[i]
		r.Machines[machine.Name] = machine
		if host := machine.Labels[corev1.LabelHostname]; host != "" {
			r.hosts[host] = machine.Name
		}
	}
	return nil
}

// readVolumes finds out which claims are bound to one machine. Those of pods that are
// ready need no look: their volumes are there.
func (r *reading) readVolumes(ctx context.Context) error {
	r.volumeMachines, r.lost = map[string]string{}, map[string]bool{}
	if err := r.readVolumesOf(ctx, r.EtcdClaims, r.EtcdPods); err != nil {
		return err
	}
	for _, g := range r.NodeGroups {
		if err := r.readVolumesOf(ctx, g.Claims, g.Pods); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) readVolumesOf(ctx context.Context, claims map[int]*corev1.PersistentVolumeClaim, pods map[int]*corev1.Pod) error {
	for ordinal, claim := range claims {
		if pod := pods[ordinal]; pod != nil && IsReady(pod) && !r.IsMachineDown(pod.Spec.NodeName) {
			continue
		}
		if err := r.readVolume(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) readVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Status.Phase == corev1.ClaimLost {
		r.lost[claim.Name] = true
		return nil
	}
	if claim.Spec.VolumeName == "" {
		return nil
	}
	volume := &corev1.PersistentVolume{}
	err := r.live.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume)
	switch {
	case apierrors.IsNotFound(err):
		// Kubernetes says so, too, soon; until then a volume is only late.
		return nil
	case err != nil:
		return fmt.Errorf("look at volume %s: %w", claim.Spec.VolumeName, err)
	}
	if host := hostOf(volume); host != "" {
		machine, known := r.hosts[host]
		if !known {
			machine = host // it is gone; on most clusters that was its name
		}
		r.volumeMachines[claim.Name] = machine
	}
	return nil
}

// hostOf returns the only host that can mount a volume; empty: others can, too.
func hostOf(volume *corev1.PersistentVolume) string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return ""
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return ""
	}
	for _, rule := range terms[0].MatchExpressions {
		if rule.Key == corev1.LabelHostname && rule.Operator == corev1.NodeSelectorOpIn && len(rule.Values) == 1 {
			return rule.Values[0]
		}
	}
	for _, rule := range terms[0].MatchFields {
		if rule.Key == "metadata.name" && rule.Operator == corev1.NodeSelectorOpIn && len(rule.Values) == 1 {
			return rule.Values[0]
		}
	}
	return ""
}
