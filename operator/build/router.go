package build

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	// A router that is told to stop serves on for shutdownDelaySeconds, as not ready, so
	// that Envoy and Kubernetes look elsewhere; then running requests may take
	// shutdownSeconds.
	shutdownDelaySeconds = 15
	shutdownSeconds      = 30
	routerGraceSeconds   = shutdownDelaySeconds + shutdownSeconds + 15
	// A new router is believed in, and an old one told to stop, when all Envoys have had time to
	// learn of it: they ask for addresses every 5 s, which Kubernetes' name service may have kept
	// for 5 s, and then ask the router whether it is ready, every 2 s. Envoy sends nothing to the old
	// ones as soon as they are not ready, whether it knows of new ones or not.
	routerLearnedSeconds = 15

	volumeFrontTLS = "front-tls"
	dirFrontTLS    = "/etc/tickmesh/front-tls"
	volumeMQTT     = "mqtt"
	dirMQTT        = "/etc/tickmesh/mqtt"
	mqttFile       = "mqtt.yaml"
	// initialNodesMax is how many nodes a new cluster waits for at most, so that its first
	// map is spread over them. More join as they come.
	initialNodesMax = 3
)

// RouterDeployment makes the Deployment of the routers. It names no number of replicas
// when that follows the load.
func RouterDeployment(c *v1alpha1.TickMeshCluster, f Facts) *appsv1.Deployment {
	routers := &c.Spec.Routers
	p := pod{
		component: ComponentRouter, placement: routers.Placement, additions: routers.PodTemplate, graceSecs: routerGraceSeconds,
		spread: spread{topologyKey: c.Spec.Nodes.Zones.TopologyKey},
		container: corev1.Container{
			Args: routerArguments(c, f), Env: routerEnvironment(c, f), Resources: routers.Resources, Ports: routerPorts(f),
		},
	}
	p.addPeerTLS(c, IdentityRouter)
	front := routerFrontSecret(c)
	if front != "" && frontTLSFolder(c) == dirFrontTLS {
		p.addSecret(volumeFrontTLS, front, dirFrontTLS)
	}
	p.addDatabases(f)
	p.addAuth(c)
	if secret := routers.MQTTSecretName; secret != "" {
		p.addSecret(volumeMQTT, secret, dirMQTT)
	}
	probes(&p.container, PortHTTP, front != "", "/healthz", "/readyz")
	d := deployment(c, f, p)
	if EnvoyEnabled(c) {
		d.Spec.MinReadySeconds = routerLearnedSeconds
	}
	switch scaling := routers.Autoscaling; {
	case scaling == nil:
		d.Spec.Replicas = replicas(f, ComponentRouter, routers.Count, &d.ObjectMeta)
	case f.Stopped[ComponentRouter]:
		d.Spec.Replicas = replicas(f, ComponentRouter, scaling.Min, &d.ObjectMeta)
	}
	return d
}

func routerArguments(c *v1alpha1.TickMeshCluster, f Facts) []string {
	args := []string{
		"router", "--http-addr=" + hostPort("", PortHTTP), "--put-addr=" + hostPort("", PortPut),
		"--line-addr=" + hostPort("", PortLine), "--grpc-addr=" + hostPort("", PortGRPC),
		"--initial-nodes=" + strconv.Itoa(initialNodes(c)), "--replace-after=" + string(c.Spec.ReplaceAfter),
		"--shutdown-delay=" + strconv.Itoa(shutdownDelaySeconds) + "s", "--shutdown-timeout=" + strconv.Itoa(shutdownSeconds) + "s",
	}
	args = append(args, "--http-hosts="+strings.Join(httpHosts(c, f), ","))
	args = append(args, clusterArguments(c, f, IdentityRouter)...)
	if routerFrontSecret(c) != "" {
		dir := frontTLSFolder(c)
		args = append(args, "--tls-cert="+dir+"/"+corev1.TLSCertKey, "--tls-key="+dir+"/"+corev1.TLSPrivateKeyKey)
	}
	return args
}

// annotationExternalDNS of a Service has the names that ExternalDNS publishes for it, with commas
// between.
const annotationExternalDNS = "external-dns.alpha.kubernetes.io/hostname"

// httpHosts returns the names by which clients ask over HTTP, each once, besides those
// that routers take by themselves.
func httpHosts(c *v1alpha1.TickMeshCluster, f Facts) []string {
	service := &c.Spec.Service
	named := slices.Concat(service.Hosts, f.LoadBalancerHosts, strings.Split(service.Annotations[annotationExternalDNS], ","))
	if service.TLS != nil {
		named = append(named, service.TLS.Hosts...)
	}
	hosts := []string{ClientServiceName(c) + "." + c.Namespace}
	for _, host := range named {
		host = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(host), "."))
		if host != "*" && !hostName.MatchString(host) || slices.Contains(hosts, host) {
			continue // addresses are taken as they are
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// hostName is what routers take as a name; no address is one.
var hostName = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?$`)

// initialNodes returns how many nodes a new cluster waits for: of those that are to hold
// shards, as one that is to be empty counts for nothing. Where all are to be empty it waits
// for one that is not. Once the cluster is made the number means nothing, and a drain by
// name is not to restart the routers.
func initialNodes(c *v1alpha1.TickMeshCluster) int {
	wanted := int(c.Spec.NodeCount())
	if made := c.Status.Shards > 0; !made {
		for _, name := range NodeNames(c) {
			if slices.Contains(c.Spec.Nodes.Drained, name) {
				wanted--
			}
		}
	}
	return max(1, min(wanted, initialNodesMax))
}

// frontTLSFolder returns the folder with the certificate of the ports for clients.
func frontTLSFolder(c *v1alpha1.TickMeshCluster) string {
	if EnvoyEnabled(c) {
		return dirTLS // the one for connections inside the cluster
	}
	return dirFrontTLS
}

func frontPorts() []corev1.ContainerPort {
	return []corev1.ContainerPort{
		containerPort("line", PortLine), containerPort("put", PortPut), containerPort("http", PortHTTP), containerPort("grpc", PortGRPC),
	}
}

func routerPorts(f Facts) []corev1.ContainerPort {
	ports := frontPorts()
	if !f.NoMetricsPort {
		ports = append(ports, containerPort(portMetrics, PortMetrics))
	}
	return ports
}

// routerEnvironment is where routers serve metrics beside the ports for clients. It is no argument,
// because older images of spec.image do not know the flag.
func routerEnvironment(c *v1alpha1.TickMeshCluster, f Facts) []corev1.EnvVar {
	env := peerEnvironment(c, f)
	if !f.NoMetricsPort {
		env = append(env, corev1.EnvVar{Name: "TICKMESH_METRICS_ADDR", Value: hostPort("", PortMetrics)})
	}
	if c.Spec.Routers.MQTTSecretName != "" { // older images pass over it
		env = append(env, corev1.EnvVar{Name: "TICKMESH_MQTT_FILE", Value: dirMQTT + "/" + mqttFile})
	}
	return env
}

// HasMetricsPort reports whether a router's pods have a port of their own for metrics. Its container
// need not be the first: others may be put before it when a pod is made.
func HasMetricsPort(router *corev1.PodSpec) bool {
	return slices.ContainsFunc(router.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == portMetrics })
	})
}

// deployment makes a Deployment that replaces its pods without having fewer.
func deployment(c *v1alpha1.TickMeshCluster, f Facts, p pod) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta(c, p.component, Name(c, p.component)),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: Selector(c, p.component)}, Template: p.template(c, f),
			RevisionHistoryLimit: ptr(int32(revisionsMax)),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: ptr(intstr.FromInt32(0)), MaxSurge: ptr(intstr.FromInt32(1)),
			}},
		},
	}
}

// RouterAutoscaler makes what lets the number of routers follow their load; nil: it is
// fixed.
func RouterAutoscaler(c *v1alpha1.TickMeshCluster) *autoscalingv2.HorizontalPodAutoscaler {
	a := c.Spec.Routers.Autoscaling
	if a == nil {
		return nil
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: meta(c, ComponentRouter, Name(c, ComponentRouter)),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: Name(c, ComponentRouter),
			},
			MinReplicas: ptr(a.Min), MaxReplicas: a.Max,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr(a.CPUPercent)},
				},
			}},
		},
	}
}
