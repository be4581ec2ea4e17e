package build

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// HeadlessService makes the Service from which the pods of a component have their names:
// nodes, etcd, routers. Nodes and members of etcd are found before they are ready,
// because they become so only together.
func HeadlessService(c *v1alpha1.TickMeshCluster, component string) *corev1.Service {
	s := service(c, component, Name(c, component))
	s.Spec.ClusterIP = corev1.ClusterIPNone
	switch component {
	case ComponentNode:
		s.Spec.Ports = []corev1.ServicePort{servicePort("rpc", PortNodeRPC), servicePort(portMetrics, PortNodeHTTP)}
		s.Spec.PublishNotReadyAddresses = true
	case ComponentEtcd:
		s.Spec.Ports = []corev1.ServicePort{
			servicePort("client", PortEtcdClient), servicePort("peer", PortEtcdPeer), servicePort(portMetrics, PortEtcdMetrics),
		}
		s.Spec.PublishNotReadyAddresses = true
	default:
		s.Spec.Ports = append(clientPorts(), servicePort(portMetrics, PortMetrics))
	}
	return s
}

// labelClients of a pod never is clientsKeptOut.
const (
	labelClients   = v1alpha1.Group + "/door"
	clientsKeptOut = "closed"
)

// ClientService makes the Service that clients use. One that is closed leads to no pod. Without Envoy
// and with a certificate of its own it cannot be closed, as the Jobs of restores use it, too.
func ClientService(c *v1alpha1.TickMeshCluster, f Facts) *corev1.Service {
	component := ComponentRouter
	if EnvoyEnabled(c) {
		component = ComponentEnvoy
	}
	s := service(c, component, ClientServiceName(c))
	if f.ClientsKeptOut && (EnvoyEnabled(c) || routerFrontSecret(c) == "") {
		s.Spec.Selector[labelClients] = clientsKeptOut
	}
	s.Labels[LabelComponent] = "door" // no ServiceMonitor of a component finds it
	spec := &c.Spec.Service
	s.Annotations = maps.Clone(spec.Annotations)
	s.Spec.Type = spec.Type
	s.Spec.Ports = clientPorts()
	if spec.Type == corev1.ServiceTypeClusterIP {
		return s
	}
	s.Spec.ExternalTrafficPolicy = spec.ExternalTrafficPolicy
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP = spec.LoadBalancerIP
		s.Spec.LoadBalancerSourceRanges = spec.LoadBalancerSourceRanges
		if spec.LoadBalancerClass != "" {
			s.Spec.LoadBalancerClass = ptr(spec.LoadBalancerClass)
		}
	}
	return s
}

func service(c *v1alpha1.TickMeshCluster, component, name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(c, component, name),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: Selector(c, component)},
	}
}

func clientPorts() []corev1.ServicePort {
	return []corev1.ServicePort{
		servicePort("line", PortLine), servicePort("put", PortPut), servicePort("http", PortHTTP), servicePort("grpc", PortGRPC),
	}
}

// servicePort leads to the container's port of the same number. Names of ports of sidecars
// are not known to all versions of Kubernetes.
func servicePort(name string, port int) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: int32(port), TargetPort: intstr.FromInt32(int32(port)), Protocol: corev1.ProtocolTCP}
}
