package build

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const monitoringVersion = "monitoring.coreos.com/v1"

// MetricLabelCluster is the label that has the name of the cluster in the metrics that
// the monitors find. "cluster" is often that of Kubernetes.
const MetricLabelCluster = "tickmesh_cluster"

// podLabelPrefix is before the labels of pods among those that Prometheus knows while
// it looks for targets.
const podLabelPrefix = "__meta_kubernetes_pod_label_"

// Monitor makes the PodMonitor or ServiceMonitor of a component, as the kind says. They
// are not typed, because the Prometheus operator's types are no dependency of ours.
func Monitor(c *v1alpha1.TickMeshCluster, f Facts, kind, component string) *unstructured.Unstructured {
	port := portMetrics
	endpoint := map[string]any{"path": "/metrics"}
	switch component {
	case ComponentRouter:
		if f.MetricsAtHTTPPort {
			port = "http"
		}
		if routerFrontSecret(c) != "" {
			endpoint["scheme"] = "https"
			endpoint["tlsConfig"] = routerTLSConfig(c)
		}
		if AuthEnabled(c) {
			endpoint["authorization"] = map[string]any{"credentials": map[string]any{"name": TokenSecret(c), "key": KeyMetricsToken}}
		}
	case ComponentEnvoy:
		endpoint["path"] = "/stats/prometheus"
	}
	endpoint["port"] = port
	// Alerts and dashboards go by it: etcd's metrics, above all, are those of any etcd.
	endpoint["relabelings"] = []any{map[string]any{
		"sourceLabels": []any{podLabelPrefix + strings.NewReplacer(".", "_", "/", "_").Replace(LabelCluster)}, "targetLabel": MetricLabelCluster,
	}}
	if c.Spec.Monitoring.Interval != "" {
		endpoint["interval"] = string(c.Spec.Monitoring.Interval)
	}
	endpoints := map[string]string{"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}[kind]
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": toAny(Selector(c, component))},
		endpoints:  []any{endpoint},
	}}}
	u.SetAPIVersion(monitoringVersion)
	u.SetKind(kind)
	u.SetName(Name(c, component))
	u.SetNamespace(c.Namespace)
	labels := Labels(c, component)
	for key, value := range c.Spec.Monitoring.Labels {
		if _, ours := labels[key]; !ours {
			labels[key] = value
		}
	}
	u.SetLabels(labels)
	u.SetOwnerReferences(meta(c, component, "").OwnerReferences)
	return u
}

// routerTLSConfig returns how Prometheus trusts the routers.
func routerTLSConfig(c *v1alpha1.TickMeshCluster) map[string]any {
	return map[string]any{
		"serverName": routerServerName(c),
		"ca":         map[string]any{"secret": map[string]any{"name": AccessRouters(c).CASecret, "key": keyCA}},
	}
}

func toAny(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = value
	}
	return out
}
