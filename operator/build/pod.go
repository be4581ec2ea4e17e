package build

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Folders in pods.
const (
	dirData    = "/data"
	dirTLS     = "/etc/tickmesh/tls"
	dirEtcdTLS = "/etc/tickmesh/etcd-tls"
	dirPod     = "/etc/tickmesh/pod"
)

// userID is the user and group of all pods: "nonroot" of images without a distribution.
const userID = 65532

// pod is what the pods of a component differ in.
type pod struct {
	component   string
	group       string // of nodes; empty: that of spec.nodes
	placement   v1alpha1.Placement
	container   corev1.Container
	volumes     []corev1.Volume
	annotations map[string]string
	additions   *v1alpha1.PodTemplate // of spec; nil: there are none
	graceSecs   int64
	spread      spread
	// before run, one after the other, before the container starts.
	before []corev1.Container
	// ender runs beside the container, which goes on until it has ended; nil: there is none.
	ender *corev1.Container
	// stays reports that the pod is not deleted when its machine is lost, but by the operator.
	stays bool
}

// spread describes how the pods of a component are spread.
type spread struct {
	machinesRequired, zonesRequired bool
	topologyKey                     string // of zones
}

func ptr[T any](v T) *T { return &v }

func hostPort(host string, port int) string { return host + ":" + strconv.Itoa(port) }

// template returns the pod template of a component.
func (p pod) template(c *v1alpha1.TickMeshCluster, f Facts) corev1.PodTemplateSpec {
	p = p.withAdditions().withRestart(c, f)
	container := p.complete(c, f, p.container)
	container.Name = p.component
	containers, before := []corev1.Container{container}, []corev1.Container(nil)
	for _, first := range p.before {
		before = append(before, p.complete(c, f, first))
	}
	if p.ender != nil {
		container.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		containers, before = []corev1.Container{p.complete(c, f, *p.ender)}, append(before, container)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: p.labels(c), Annotations: p.annotations},
		Spec: corev1.PodSpec{
			InitContainers:                before,
			Containers:                    containers,
			Volumes:                       p.volumes,
			ImagePullSecrets:              c.Spec.ImagePullSecrets,
			SecurityContext:               podSecurity(c),
			AutomountServiceAccountToken:  ptr(false),
			EnableServiceLinks:            ptr(false),
			TerminationGracePeriodSeconds: &p.graceSecs,
			NodeSelector:                  maps.Clone(p.placement.NodeSelector),
			Tolerations:                   p.tolerations(),
			PriorityClassName:             p.placement.PriorityClassName,
			Affinity:                      p.affinity(c),
			TopologySpreadConstraints:     p.spreads(c),
		},
	}
}

// setName returns the name of the StatefulSet.
func (p pod) setName(c *v1alpha1.TickMeshCluster) string {
	if p.component == ComponentNode {
		return NodeSetName(c, p.group)
	}
	return Name(c, p.component)
}

// selector returns the labels that select the pods of the StatefulSet. That of spec.nodes had no group
// before there were any, and selectors never change: it selects pods of other groups, too, which
// Kubernetes tells from its own by their names.
func (p pod) selector(c *v1alpha1.TickMeshCluster) map[string]string {
	return p.withGroup(Selector(c, p.component))
}

// allLabels returns the labels of the StatefulSet, its pods and claims, but for those of spec.
func (p pod) allLabels(c *v1alpha1.TickMeshCluster) map[string]string {
	return p.withGroup(Labels(c, p.component))
}

func (p pod) withGroup(labels map[string]string) map[string]string {
	if p.group != "" {
		labels[LabelNodeGroup] = p.group
	}
	return labels
}

// complete sets what all containers have.
func (p pod) complete(c *v1alpha1.TickMeshCluster, f Facts, container corev1.Container) corev1.Container {
	if container.Image == "" {
		container.Image = Image(c, f)
	}
	container.ImagePullPolicy = c.Spec.ImagePullPolicy
	container.SecurityContext = containerSecurity()
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	return container
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false),
		ReadOnlyRootFilesystem:   ptr(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// podSecurity returns the settings of all pods, or those of the spec, which cannot allow
// root.
func podSecurity(c *v1alpha1.TickMeshCluster) *corev1.PodSecurityContext {
	if own := c.Spec.Security.PodSecurityContext; own != nil {
		s := own.DeepCopy()
		s.RunAsNonRoot = ptr(true)
		if s.SeccompProfile == nil {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		}
		return s
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(userID)), RunAsGroup: ptr(int64(userID)),
		FSGroup: ptr(int64(userID)), FSGroupChangePolicy: ptr(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// moveSeconds is how long a pod without data stays on a machine that is lost.
const moveSeconds = 30

func (p pod) tolerations() []corev1.Toleration {
	var seconds *int64 // for ever
	if !p.stays {
		seconds = ptr(int64(moveSeconds))
	}
	tolerations := make([]corev1.Toleration, 0, len(p.placement.Tolerations)+2)
	tolerations = append(tolerations, p.placement.Tolerations...)
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
		})
	}
	return tolerations
}

// affinity keeps the pods of a component off each other's machines.
func (p pod) affinity(c *v1alpha1.TickMeshCluster) *corev1.Affinity {
	term := corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(c, p.component)}, TopologyKey: corev1.LabelHostname,
	}
	apart := &corev1.PodAntiAffinity{}
	if p.spread.machinesRequired {
		apart.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term}
	} else {
		apart.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}}
	}
	return &corev1.Affinity{NodeAffinity: p.placement.NodeAffinity.DeepCopy(), PodAntiAffinity: apart}
}

// zones spreads the pods of a component over zones.
func (p pod) zones(c *v1alpha1.TickMeshCluster) []corev1.TopologySpreadConstraint {
	unsatisfiable := corev1.ScheduleAnyway
	if p.spread.zonesRequired {
		unsatisfiable = corev1.DoNotSchedule
	}
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: p.spread.topologyKey, WhenUnsatisfiable: unsatisfiable,
		LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(c, p.component)},
	}}
}

// Times of probes.
const (
	// startupSeconds is how long a process may take until it listens. A node replays its
	// log, and waits for etcd when it is new; a router waits for the first shard map.
	startupSeconds = 3600
	probePeriod    = 5
	probeTimeout   = 4
	livePeriod     = 10
	liveFailures   = 6
	readyFailures  = 2
)

// probes sets the probes of a container. Liveness asks for the process only; who waits for
// something is alive.
func probes(container *corev1.Container, port int, secure bool, livePath, readyPath string) {
	probe := func(path string, period, failures int32) *corev1.Probe {
		get := &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(int32(port)), Scheme: corev1.URISchemeHTTP}
		if secure {
			get.Scheme = corev1.URISchemeHTTPS
		}
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, PeriodSeconds: period, TimeoutSeconds: probeTimeout,
			FailureThreshold: failures, SuccessThreshold: 1,
		}
	}
	container.StartupProbe = probe(livePath, probePeriod, startupSeconds/probePeriod)
	container.LivenessProbe = probe(livePath, livePeriod, liveFailures)
	container.ReadinessProbe = probe(readyPath, probePeriod, readyFailures)
}

func containerPort(name string, port int) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}
}

func mount(name, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
}

// envPodName sets the environment variable with the pod's name.
func envPodName() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}
}
