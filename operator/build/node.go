package build

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	// nodeGraceSeconds is for handing over what a node leads, and for its last checkpoint.
	nodeGraceSeconds = 60
	zoneFile         = "zone"
)

// NodeStatefulSet makes the StatefulSet of a group of storage nodes; that of spec.nodes has an empty
// name. Pods of all groups have what Services, budgets and policies find nodes by.
func NodeStatefulSet(c *v1alpha1.TickMeshCluster, f Facts, group string) *appsv1.StatefulSet {
	nodes, _ := c.Spec.NodesOf(group)
	is := NodeGroup{f.NodeReplicas, f.NodeClaims}
	if group != "" {
		is = f.Groups[group]
	}
	p := pod{
		component: ComponentNode, group: group, placement: nodes.Placement, additions: nodes.PodTemplate, graceSecs: nodeGraceSeconds, stays: true,
		// Two nodes on one machine would be lost together. A volume may bind a pod to its
		// machine for ever, so that it would stay there when there is another one again.
		spread: spread{machinesRequired: true, zonesRequired: nodes.Zones.Required, topologyKey: nodes.Zones.TopologyKey},
		container: corev1.Container{
			Args: nodeArguments(c, f), Env: nodeEnvironment(c, f), Resources: nodes.Resources,
			Ports:        []corev1.ContainerPort{containerPort("rpc", PortNodeRPC), containerPort(portMetrics, PortNodeHTTP)},
			VolumeMounts: []corev1.VolumeMount{{Name: volumeData, MountPath: dirData}, mount(volumePod, dirPod)},
		},
		volumes: []corev1.Volume{zoneVolume()},
	}
	p.addNodeTLS(c, f, nodes.Resources)
	p.addDatabases(f)
	probes(&p.container, PortNodeHTTP, false, "/healthz", "/readyz")
	return statefulSet(c, f, p, is.Replicas, claimTemplate(p.allLabels(c), nodes.Storage.VolumeSpec, nodes.Storage.Size, is.Claims))
}

func nodeArguments(c *v1alpha1.TickMeshCluster, f Facts) []string {
	args := []string{
		"node", "--data-dir=" + dirData, "--node-id=$(POD_NAME)",
		"--rpc-addr=" + hostPort("", PortNodeRPC), "--http-addr=" + hostPort("", PortNodeHTTP),
		"--advertise-addr=" + hostPort(PodAddress(c, ComponentNode, "$(POD_NAME)"), PortNodeRPC),
		"--zone-file=" + dirPod + "/" + zoneFile,
		"--wal-sync=" + string(WALSync(c)), "--retention=" + string(c.Spec.Retention),
	}
	if c.Spec.MoveRate != nil {
		args = append(args, "--move-rate="+strconv.FormatInt(c.Spec.MoveRate.Value(), 10))
	}
	return append(args, clusterArguments(c, f, IdentityNode)...)
}

// nodeEnvironment is what older images of spec.image pass over, where they would refuse an argument.
func nodeEnvironment(c *v1alpha1.TickMeshCluster, f Facts) []corev1.EnvVar {
	env := peerEnvironment(c, f)
	if c.Spec.ForgetSeries {
		env = append(env, corev1.EnvVar{Name: "TICKMESH_FORGET_SERIES", Value: "true"})
	}
	if c.Spec.ExemplarBytes != nil {
		env = append(env, corev1.EnvVar{Name: "TICKMESH_EXEMPLAR_BYTES", Value: strconv.FormatInt(c.Spec.ExemplarBytes.Value(), 10)})
	}
	return append(env, envPodName())
}

// addNodeTLS is addPeerTLS for nodes.
func (p *pod) addNodeTLS(c *v1alpha1.TickMeshCluster, f Facts, resources corev1.ResourceRequirements) {
	if !NodesKeepKeys(c) {
		p.addPeerTLS(c, IdentityNode)
		return
	}
	p.addOwnKey(c, f, resources)
	p.addEtcdTLS(c)
}

// zoneVolume has the zone of the pod as a file, which is empty until it is known.
func zoneVolume() corev1.Volume {
	return corev1.Volume{Name: volumePod, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		DefaultMode: ptr(int32(secretFileMode)),
		Items:       []corev1.DownwardAPIVolumeFile{annotationFile(zoneFile, AnnotationZone)},
	}}}
}
