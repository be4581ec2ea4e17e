package build

import (
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Kinds of monitors.
const (
	KindPodMonitor     = "PodMonitor"
	KindServiceMonitor = "ServiceMonitor"
)

// Objects makes all objects of a cluster but Secrets, in the order to apply them in:
// what pods need comes before them. Errors: those of EnvoyConfigMap.
func Objects(c *v1alpha1.TickMeshCluster, f Facts) ([]Object, error) {
	var objects []Object
	for _, component := range components(c) {
		if NetworkPoliciesEnabled(c) {
			objects = append(objects, NetworkPolicy(c, f, component))
		}
		if component != ComponentBackup {
			objects = append(objects, DisruptionBudget(c, component))
		}
	}
	if c.Spec.Etcd.Managed != nil {
		objects = append(objects, EtcdConfigMap(c, f), HeadlessService(c, ComponentEtcd), EtcdStatefulSet(c, f))
	}
	objects = append(objects, HeadlessService(c, ComponentNode), NodeStatefulSet(c, f, ""))
	for _, group := range slices.Sorted(maps.Keys(f.Groups)) {
		objects = append(objects, NodeStatefulSet(c, f, group))
	}
	objects = append(objects, HeadlessService(c, ComponentRouter), RouterDeployment(c, f))
	if a := RouterAutoscaler(c); a != nil {
		objects = append(objects, a)
	}
	if EnvoyEnabled(c) {
		config, err := EnvoyConfigMap(c)
		if err != nil {
			return nil, err
		}
		objects = append(objects, config, EnvoyDeployment(c, f, config))
	}
	objects = append(objects, ClientService(c, f))
	for _, m := range monitors(c, f) {
		objects = append(objects, m)
	}
	return objects, nil
}

// Unwanted returns the objects, by kind and name only, that other settings would have made:
// what is there of them is to be deleted. Never a StatefulSet, nor configurations of Envoy: see
// inventory.UnusedEnvoyConfigs.
func Unwanted(c *v1alpha1.TickMeshCluster, f Facts) []Object {
	var objects []Object
	if !EnvoyEnabled(c) {
		objects = append(objects,
			&appsv1.Deployment{ObjectMeta: meta(c, ComponentEnvoy, Name(c, ComponentEnvoy))},
			&policyv1.PodDisruptionBudget{ObjectMeta: meta(c, ComponentEnvoy, Name(c, ComponentEnvoy))})
	}
	if c.Spec.Databases == "" {
		objects = append(objects, DatabasesConfigMap(c))
	}
	if c.Spec.Routers.Autoscaling == nil {
		objects = append(objects, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta(c, ComponentRouter, Name(c, ComponentRouter))})
	}
	for _, component := range allComponents() {
		wanted := NetworkPoliciesEnabled(c) && (component != ComponentEnvoy || EnvoyEnabled(c))
		if !wanted {
			objects = append(objects, &networkingv1.NetworkPolicy{ObjectMeta: meta(c, component, Name(c, component))})
		}
	}
	wanted := map[string]bool{}
	for _, m := range monitors(c, f) {
		wanted[m.GetKind()+"/"+m.GetName()] = true
	}
	for _, component := range allComponents() {
		for _, kind := range monitorKinds(f.PodMonitors, f.ServiceMonitors) {
			if component == ComponentBackup || wanted[kind+"/"+Name(c, component)] {
				continue
			}
			objects = append(objects, Monitor(c, f, kind, component))
		}
	}
	return objects
}

// monitorKinds returns the kinds that are wanted, of those that there are.
func monitorKinds(pod, service bool) (kinds []string) {
	if pod {
		kinds = append(kinds, KindPodMonitor)
	}
	if service {
		kinds = append(kinds, KindServiceMonitor)
	}
	return kinds
}

func monitors(c *v1alpha1.TickMeshCluster, f Facts) (all []*unstructured.Unstructured) {
	for _, kind := range monitorKinds(c.Spec.Monitoring.PodMonitor && f.PodMonitors, c.Spec.Monitoring.ServiceMonitor && f.ServiceMonitors) {
		for _, component := range components(c) {
			// Clients come by Envoy's Service, which has no port for metrics.
			if component == ComponentBackup || component == ComponentEnvoy && kind == KindServiceMonitor {
				continue
			}
			all = append(all, Monitor(c, f, kind, component))
		}
	}
	return all
}
