package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// observation is what Kubernetes has of a cluster.
type observation struct {
	nodeSet, etcdSet   *appsv1.StatefulSet // nil: there is none
	router, envoy      *appsv1.Deployment  // nil: there is none
	nodePods, etcdPods map[int]*corev1.Pod // by ordinal
	nodeClaims         map[int]*corev1.PersistentVolumeClaim
	etcdClaims         map[int]*corev1.PersistentVolumeClaim
	machines           map[string]*corev1.Node
	// hosts gives machines by their label kubernetes.io/hostname, which volumes name.
	hosts map[string]string
	// volumeMachines gives the only machine that can mount the volume of a claim, by its
	// name; lost has the claims whose volume does not exist any more.
	volumeMachines map[string]string
	lost           map[string]bool
	doorHosts      []string // that the load balancer of the Service for clients tells
	etcdGeneration int64    // of the ConfigMap that members of etcd start with
}

// observe looks at a cluster. StatefulSets, pods and claims are read as they are now: on
// older ones a second node could be restarted while the first one is, or replicas be put
// back to what they were.
func (p *pass) observe(ctx context.Context) (err error) {
	c, o := p.cluster, &p.seen
	if o.nodeSet, err = p.statefulSet(ctx, build.Name(c, build.ComponentNode)); err != nil {
		return err
	}
	if err := p.nameStore(ctx); err != nil {
		return err
	}
	if o.etcdSet, err = p.statefulSet(ctx, build.Name(c, build.ComponentEtcd)); err != nil {
		return err
	}
	if o.router, err = p.deployment(ctx, build.Name(c, build.ComponentRouter)); err != nil {
		return err
	}
	if o.envoy, err = p.deployment(ctx, build.Name(c, build.ComponentEnvoy)); err != nil {
		return err
	}
	if o.nodePods, err = p.pods(ctx, build.ComponentNode); err != nil {
		return err
	}
	if o.etcdPods, err = p.pods(ctx, build.ComponentEtcd); err != nil {
		return err
	}
	if o.nodeClaims, err = p.claims(ctx, build.ComponentNode, replicasOf(o.nodeSet)); err != nil {
		return err
	}
	if o.etcdClaims, err = p.claims(ctx, build.ComponentEtcd, replicasOf(o.etcdSet)); err != nil {
		return err
	}
	if err := p.listMachines(ctx); err != nil {
		return err
	}
	if err := p.findEtcdGeneration(ctx); err != nil {
		return err
	}
	if err := p.findDoorHosts(ctx); err != nil {
		return err
	}
	if err := p.findVolumes(ctx); err != nil {
		return err
	}
	return p.checkRebuild(ctx)
}

// nameStore writes down the name that the shard map is kept under, before anything is made
// that uses it.
func (p *pass) nameStore(ctx context.Context) error {
	external := p.cluster.Spec.Etcd.External
	if external == nil || external.ClusterName != "" || p.cluster.Status.StoreName != "" {
		return nil
	}
	before := p.cluster.DeepCopy()
	p.cluster.Status.StoreName = build.NewStoreName(p.cluster, p.seen.nodeSet)
	if err := p.patchStatus(ctx, p.cluster, before); err != nil {
		return fmt.Errorf("write down the name of the shard map: %w", err)
	}
	return nil
}

// findDoorHosts reads the names that a load balancer tells of itself, in order: it may tell
// them in another one each time.
func (p *pass) findDoorHosts(ctx context.Context) error {
	door := &corev1.Service{}
	if found, err := p.get(ctx, p.Client, build.DoorName(p.cluster), door); !found {
		return err
	}
	for i := range door.Status.LoadBalancer.Ingress {
		if host := door.Status.LoadBalancer.Ingress[i].Hostname; host != "" {
			p.seen.doorHosts = append(p.seen.doorHosts, host)
		}
	}
	slices.Sort(p.seen.doorHosts)
	return nil
}

func (p *pass) get(ctx context.Context, from client.Reader, name string, into client.Object) (found bool, err error) {
	err = from.Get(ctx, types.NamespacedName{Namespace: p.cluster.Namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// statefulSet returns a StatefulSet of the cluster; nil: there is none. That of somebody else
// is not looked at, and is told of when it is in the way.
func (p *pass) statefulSet(ctx context.Context, name string) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := p.get(ctx, p.Reader, name, set)
	if !found || ownership.CheckObject(p.cluster, "StatefulSet", set) != nil {
		return nil, err
	}
	return set, nil
}

// deployment is statefulSet for a Deployment.
func (p *pass) deployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	found, err := p.get(ctx, p.Client, name, d)
	if !found || ownership.CheckObject(p.cluster, "Deployment", d) != nil {
		return nil, err
	}
	return d, nil
}

func (p *pass) selects(component string) []client.ListOption {
	return []client.ListOption{client.InNamespace(p.cluster.Namespace), client.MatchingLabels(build.Selector(p.cluster, component))}
}

func (p *pass) pods(ctx context.Context, component string) (map[int]*corev1.Pod, error) {
	var list corev1.PodList
	if err := p.Reader.List(ctx, &list, p.selects(component)...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := map[int]*corev1.Pod{}
	for i := range list.Items {
		if ordinal, ok := ordinalOf(list.Items[i].Name, build.Name(p.cluster, component)); ok {
			pods[ordinal] = &list.Items[i]
		}
	}
	return pods, nil
}

// claims returns the claims of a component by ordinal; those of the first expected pods even if
// they have no labels.
func (p *pass) claims(ctx context.Context, component string, expected int) (map[int]*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := p.Reader.List(ctx, &list, p.selects(component)...); err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	claims := map[int]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if ordinal, ok := ordinalOf(list.Items[i].Name, build.ClaimName(build.Name(p.cluster, component))); ok {
			claims[ordinal] = &list.Items[i]
		}
	}
	for ordinal := range expected {
		if claims[ordinal] != nil {
			continue
		}
		// Somebody may have taken its labels away: its data is still there.
		claim := &corev1.PersistentVolumeClaim{}
		found, err := p.get(ctx, p.Reader, build.ClaimName(build.PodName(p.cluster, component, int32(ordinal))), claim)
		if err != nil {
			return nil, fmt.Errorf("look at a volume claim: %w", err)
		}
		if found {
			claims[ordinal] = claim
		}
	}
	return claims, nil
}

// ordinalOf returns the number after a prefix and a hyphen.
func ordinalOf(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}

func (p *pass) listMachines(ctx context.Context) error {
	var list corev1.NodeList
	if err := p.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	p.seen.machines, p.seen.hosts = map[string]*corev1.Node{}, map[string]string{}
	for i := range list.Items {
		machine := &list.Items[i]
		p.seen.machines[machine.Name] = machine
		if host := machine.Labels[corev1.LabelHostname]; host != "" {
			p.seen.hosts[host] = machine.Name
		}
	}
	return nil
}

// findVolumes finds out which claims are bound to one machine. Those of pods that are
// ready need no look: their volumes are there.
func (p *pass) findVolumes(ctx context.Context) error {
	p.seen.volumeMachines, p.seen.lost = map[string]string{}, map[string]bool{}
	for _, kind := range []struct {
		claims map[int]*corev1.PersistentVolumeClaim
		pods   map[int]*corev1.Pod
	}{{p.seen.nodeClaims, p.seen.nodePods}, {p.seen.etcdClaims, p.seen.etcdPods}} {
		for ordinal, claim := range kind.claims {
			if pod := kind.pods[ordinal]; pod != nil && isReady(pod) && !p.machineDown(pod.Spec.NodeName) {
				continue
			}
			if err := p.findVolume(ctx, claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// machineDown reports whether a machine is not ready, or does not exist.
func (p *pass) machineDown(name string) bool {
	machine := p.seen.machines[name]
	return machine == nil || notReadySince(machine) != nil
}

func (p *pass) findVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Status.Phase == corev1.ClaimLost {
		p.seen.lost[claim.Name] = true
		return nil
	}
	if claim.Spec.VolumeName == "" {
		return nil
	}
	volume := &corev1.PersistentVolume{}
	err := p.Reader.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume)
	switch {
	case apierrors.IsNotFound(err):
		// Kubernetes says so, too, soon; until then a volume is only late.
		return nil
	case err != nil:
		return fmt.Errorf("look at volume %s: %w", claim.Spec.VolumeName, err)
	}
	if host := hostOf(volume); host != "" {
		machine, known := p.seen.hosts[host]
		if !known {
			machine = host // it is gone; on most clusters that was its name
		}
		p.seen.volumeMachines[claim.Name] = machine
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

// managedEtcd reports whether the operator runs the cluster's etcd.
func managedEtcd(c *v1alpha1.TickMeshCluster) bool { return c.Spec.Etcd.Managed != nil }
