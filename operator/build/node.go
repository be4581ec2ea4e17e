package build

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	// nodeGraceSeconds is for handing over what a node leads, and for its last checkpoint.
	nodeGraceSeconds = 60
	// revisionsMax is how many old templates Kubernetes remembers.
	revisionsMax = 5

	volumeTLS     = "tls"
	volumeEtcdTLS = "etcd-tls"
	volumePod     = "pod"
	zoneFile      = "zone"
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
	return append(env, envPodName())
}

// clusterArguments are those that nodes and routers have in common.
func clusterArguments(c *v1alpha1.TickMeshCluster, f Facts, identity string) []string {
	args := []string{
		argumentCluster + StoreName(c), "--etcd-endpoints=" + strings.Join(EtcdEndpoints(c, f), ","),
		"--shards=" + strconv.Itoa(int(c.Spec.Shards)), "--replication=" + strconv.Itoa(int(c.Spec.Replication)),
		"--log-format=json",
	}
	if TLSSecret(c, identity) != "" {
		args = append(args, tlsArguments("rpc-tls", dirTLS, keyDir(c, identity, dirTLS))...)
	}
	if dir := etcdTLSFolder(c); dir != "" {
		args = append(args, tlsArguments("etcd-tls", dir, keyDir(c, identity, dir))...)
	}
	return args
}

// envNames sets whether certificates have to name their process.
const (
	envNames      = "TICKMESH_RPC_TLS_NAMES"
	namesOptional = "optional"
)

// NamesOptional reports whether the pods of a StatefulSet or Deployment take certificates
// without names.
func NamesOptional(template *corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == envNames && e.Value == namesOptional })
}

// peerEnvironment reports whether certificates need not name their process. Those of the
// operator's own CA never need to, as one of an older version is replaced by one that
// names what it signs (see operator/pki), and such a one's are refused without. Where spec has
// no TLS it says that this is wanted. It is no argument, because older images of spec.image do
// not know the flags.
func peerEnvironment(c *v1alpha1.TickMeshCluster, f Facts) []corev1.EnvVar {
	var env []corev1.EnvVar
	if c.Spec.TLS.Mode == v1alpha1.TLSModeOperator || TLSEnabled(c) && f.NamesOptional {
		env = append(env, corev1.EnvVar{Name: envNames, Value: namesOptional})
	}
	if !TLSEnabled(c) || etcdTLSFolder(c) == "" {
		env = append(env, corev1.EnvVar{Name: "TICKMESH_INSECURE", Value: "true"})
	}
	return env
}

func tlsArguments(prefix, dir, keyDir string) []string {
	return []string{
		"--" + prefix + "-cert=" + dir + "/" + corev1.TLSCertKey, "--" + prefix + "-key=" + keyDir + "/" + corev1.TLSPrivateKeyKey,
		"--" + prefix + "-ca=" + dir + "/" + keyCA,
	}
}

// etcdTLSFolder returns the folder with the certificate that etcd is shown; empty: etcd
// has no TLS.
func etcdTLSFolder(c *v1alpha1.TickMeshCluster) string {
	switch external := c.Spec.Etcd.External; {
	case external != nil && external.TLSSecretName != "":
		return dirEtcdTLS
	case external == nil && TLSEnabled(c):
		return dirTLS
	}
	return ""
}

// addPeerTLS mounts the certificates of an identity and those for an external etcd.
func (p *pod) addPeerTLS(c *v1alpha1.TickMeshCluster, identity string) {
	if secret := TLSSecret(c, identity); secret != "" {
		p.addSecret(volumeTLS, secret, dirTLS)
	}
	p.addEtcdTLS(c)
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

func (p *pod) addEtcdTLS(c *v1alpha1.TickMeshCluster) {
	if etcdTLSFolder(c) == dirEtcdTLS {
		p.addSecret(volumeEtcdTLS, c.Spec.Etcd.External.TLSSecretName, dirEtcdTLS)
	}
}

func (p *pod) addSecret(volume, secret, dir string) {
	p.volumes = append(p.volumes, secretVolume(volume, secret))
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volume, dir))
}

// zoneVolume has the zone of the pod as a file, which is empty until it is known.
func zoneVolume() corev1.Volume {
	return corev1.Volume{Name: volumePod, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		DefaultMode: ptr(int32(secretFileMode)),
		Items:       []corev1.DownwardAPIVolumeFile{annotationFile(zoneFile, AnnotationZone)},
	}}}
}

// claimTemplate makes a claim template: as it is asked for, unless there is one.
func claimTemplate(labels map[string]string, volume v1alpha1.VolumeSpec, size resource.Quantity, had *ClaimTemplate) corev1.PersistentVolumeClaim {
	is := ClaimTemplate{size, volume.StorageClassName, volume.StorageClassName}
	if had != nil {
		is = *had
	}
	m := metav1.ObjectMeta{Name: volumeData, Labels: labels}
	if is.Class != nil {
		m.Annotations = map[string]string{annotationStorageClass: *is.Class}
	}
	return corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: m,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: is.StorageClassName,
			VolumeMode: ptr(corev1.PersistentVolumeFilesystem),
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: is.Size}},
		},
	}
}

func statefulSet(c *v1alpha1.TickMeshCluster, f Facts, p pod, count int32, claims corev1.PersistentVolumeClaim) *appsv1.StatefulSet {
	m := meta(c, p.component, p.setName(c))
	m.Labels = p.allLabels(c)
	told := replicas(f, p.component, count, &m)
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: m,
		Spec: appsv1.StatefulSetSpec{
			Replicas: told, ServiceName: Name(c, p.component), Selector: &metav1.LabelSelector{MatchLabels: p.selector(c)},
			PodManagementPolicy: appsv1.ParallelPodManagement, RevisionHistoryLimit: ptr(int32(revisionsMax)),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			// The operator deletes claims, when nothing names their data any more.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template:             p.template(c, f),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claims},
		},
	}
}
