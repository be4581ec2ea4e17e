package build

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
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

// labels returns the labels of the pod.
func (p pod) labels(c *v1alpha1.TickMeshCluster) map[string]string {
	labels := map[string]string{}
	if p.additions != nil {
		for key, value := range p.additions.Labels {
			labels[key] = string(value)
		}
	}
	maps.Copy(labels, p.allLabels(c))
	return labels
}

// spreads returns how pods are spread over places. Kubernetes takes one constraint for a place, so
// that one of spec for zones takes the place of the operator's.
func (p pod) spreads(c *v1alpha1.TickMeshCluster) []corev1.TopologySpreadConstraint {
	if p.additions == nil {
		return p.zones(c)
	}
	var all []corev1.TopologySpreadConstraint
	for _, s := range p.additions.TopologySpreadConstraints {
		all = append(all, corev1.TopologySpreadConstraint{
			MaxSkew: s.MaxSkew, TopologyKey: s.TopologyKey, WhenUnsatisfiable: s.WhenUnsatisfiable,
			LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(c, p.component)},
		})
	}
	for _, zone := range p.zones(c) {
		if !slices.ContainsFunc(all, func(s corev1.TopologySpreadConstraint) bool { return s.TopologyKey == zone.TopologyKey }) {
			all = append(all, zone)
		}
	}
	return all
}
