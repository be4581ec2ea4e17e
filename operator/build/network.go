package build

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/envoy"
)

// NetworkPolicy makes the policy of who may connect to the pods of a component.
// Ports with metrics are open to all pods, since it is unknown where Prometheus is.
func NetworkPolicy(c *v1alpha1.TickMeshCluster, f Facts, component string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: meta(c, component, Name(c, component)),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: Selector(c, component)}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	own := func(components ...string) (peers []networkingv1.NetworkPolicyPeer) {
		for _, component := range components {
			peers = append(peers, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: Selector(c, component)}})
		}
		return peers
	}
	switch component {
	case ComponentNode:
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
			ingress(own(ComponentNode, ComponentRouter, ComponentRescue), PortNodeRPC), ingress(anyPod(), PortNodeHTTP),
		}
	case ComponentEtcd:
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
			ingress(append(own(ComponentNode, ComponentRouter, ComponentEtcd, ComponentRescue), operatorPod(f)), PortEtcdClient),
			ingress(own(ComponentEtcd), PortEtcdPeer), ingress(anyPod(), PortEtcdMetrics),
		}
	case ComponentRouter:
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{ingress(nil, PortLine, PortPut, PortHTTP, PortGRPC)}
		if EnvoyEnabled(c) {
			peers := append(own(ComponentEnvoy, ComponentBackup), operatorPod(f))
			p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{ingress(peers, PortLine, PortPut, PortHTTP, PortGRPC)}
			if f.MetricsAtHTTPPort && (c.Spec.Monitoring.PodMonitor || c.Spec.Monitoring.ServiceMonitor) {
				p.Spec.Ingress = append(p.Spec.Ingress, ingress(anyPod(), PortHTTP))
			}
		}
		p.Spec.Ingress = append(p.Spec.Ingress, ingress(anyPod(), PortMetrics))
	case ComponentEnvoy:
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
			ingress(nil, PortLine, PortPut, PortHTTP, PortGRPC), ingress(anyPod(), envoy.StatusPortDefault),
		}
	}
	return p // nobody connects to Jobs
}

// ingress allows peers to connect to ports; no peers: anybody.
func ingress(peers []networkingv1.NetworkPolicyPeer, ports ...int) networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: peers}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: ptr(corev1.ProtocolTCP), Port: ptr(intstr.FromInt32(int32(port)))})
	}
	return rule
}

func anyPod() []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}
}

func operatorPod(f Facts) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.OperatorNamespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: OperatorSelector()},
	}
}
