package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	etcdGraceSeconds = 30
	volumeConfig     = "config"
	dirConfig        = "/etc/tickmesh/config"
	etcdConfigFile   = "etcd.yaml"
)

// StoreName returns the name that a cluster's shard map is kept under in etcd. An external one
// may be shared, so there it is what the status says, which NewStoreName has decided.
func StoreName(c *v1alpha1.TickMeshCluster) string {
	if external := c.Spec.Etcd.External; external != nil {
		return cmp.Or(external.ClusterName, c.Status.StoreName, c.Name)
	}
	return c.Name
}

// NewStoreName returns the StoreName of a cluster with an external etcd whose spec and status
// have none. One that was made by an older operator keeps its own name, which the arguments
// of its nodes have; nodes is nil if there are none. A new one gets a name that no cluster of
// another namespace has.
func NewStoreName(c *v1alpha1.TickMeshCluster, nodes *appsv1.StatefulSet) string {
	if nodes != nil {
		for _, argument := range nodes.Spec.Template.Spec.Containers[0].Args {
			if name, is := strings.CutPrefix(argument, argumentCluster); is {
				return name
			}
		}
	}
	if c.Status.Shards > 0 {
		return c.Name // its nodes were taken away
	}
	sum := sha256.Sum256([]byte(c.Namespace + "/" + c.Name))
	return c.Name + "-" + hex.EncodeToString(sum[:storeNameHashBytes])
}

const (
	argumentCluster    = "--cluster="
	storeNameHashBytes = 4
)

// EtcdEndpoints returns the URLs of etcd for clients.
func EtcdEndpoints(c *v1alpha1.TickMeshCluster, f Facts) []string {
	if c.Spec.Etcd.External != nil {
		return c.Spec.Etcd.External.Endpoints
	}
	endpoints := make([]string, 0, f.EtcdEndpoints)
	for _, name := range PodNames(c, ComponentEtcd, f.EtcdEndpoints) {
		endpoints = append(endpoints, EtcdURL(c, name, PortEtcdClient))
	}
	return endpoints
}

// EtcdURL returns the URL of a port of a member of a managed etcd.
func EtcdURL(c *v1alpha1.TickMeshCluster, podName string, port int) string {
	scheme := "http://"
	if TLSEnabled(c) {
		scheme = "https://"
	}
	return scheme + hostPort(PodAddress(c, ComponentEtcd, podName), port)
}

// AnnotationEtcdGeneration of the ConfigMap of a managed etcd has the generation that its
// token is of, so that none is used again when a status is lost.
const AnnotationEtcdGeneration = v1alpha1.Group + "/etcd-generation"

// EtcdConfigMap makes what a member that starts without data goes by. It is no part of
// the pod template: a change of members restarts nothing.
func EtcdConfigMap(c *v1alpha1.TickMeshCluster, f Facts) *corev1.ConfigMap {
	members := make([]string, 0, len(f.EtcdMembers))
	for _, name := range f.EtcdMembers {
		members = append(members, name+"="+EtcdURL(c, name, PortEtcdPeer))
	}
	state := "new"
	if f.EtcdExists {
		state = "existing"
	}
	m := meta(c, ComponentEtcd, Name(c, ComponentEtcd))
	m.Annotations = map[string]string{AnnotationEtcdGeneration: strconv.FormatInt(f.EtcdGeneration, 10)}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: m,
		Data: map[string]string{
			etcdConfigFile: "initial-state: " + state + "\ninitial-cluster: \"" + strings.Join(members, ",") + "\"\ninitial-token: \"" + etcdToken(c, f) + "\"\n",
		},
	}
}

// EtcdStatefulSet makes the StatefulSet of a managed etcd.
func EtcdStatefulSet(c *v1alpha1.TickMeshCluster, f Facts) *appsv1.StatefulSet {
	managed := c.Spec.Etcd.Managed
	p := pod{
		component: ComponentEtcd, placement: managed.Placement, additions: managed.PodTemplate, graceSecs: etcdGraceSeconds, stays: true,
		spread: spread{machinesRequired: true, topologyKey: c.Spec.Nodes.Zones.TopologyKey},
		container: corev1.Container{
			Args: etcdArguments(c), Env: []corev1.EnvVar{envPodName()}, Resources: managed.Resources,
			Ports: []corev1.ContainerPort{
				containerPort("client", PortEtcdClient), containerPort("peer", PortEtcdPeer), containerPort(portMetrics, PortEtcdMetrics),
			},
			VolumeMounts: []corev1.VolumeMount{{Name: volumeData, MountPath: dirData}, mount(volumeConfig, dirConfig)},
		},
		volumes: []corev1.Volume{configVolume(Name(c, ComponentEtcd))},
	}
	if f.EtcdCABundle != "" {
		p.annotations = map[string]string{AnnotationConfigHash: f.EtcdCABundle}
	}
	if secret := TLSSecret(c, IdentityEtcd); secret != "" {
		p.addSecret(volumeTLS, secret, dirTLS)
	} else {
		p.container.Env = append(p.container.Env, corev1.EnvVar{Name: "TICKMESH_INSECURE", Value: "true"})
	}
	probes(&p.container, PortEtcdMetrics, false, "/livez", "/readyz")
	return statefulSet(c, f, p, f.EtcdReplicas, claimTemplate(p.allLabels(c), managed.Storage.VolumeSpec, managed.Storage.Size, f.EtcdClaims))
}

func etcdArguments(c *v1alpha1.TickMeshCluster) []string {
	args := []string{
		"etcd", "--config=" + dirConfig + "/" + etcdConfigFile, "--data-dir=" + dirData, "--name=$(POD_NAME)",
		"--client-addr=" + hostPort("", PortEtcdClient), "--peer-addr=" + hostPort("", PortEtcdPeer), "--metrics-addr=" + hostPort("", PortEtcdMetrics),
		"--advertise-client=" + EtcdURL(c, "$(POD_NAME)", PortEtcdClient), "--log-format=json",
	}
	if TLSSecret(c, IdentityEtcd) != "" {
		args = append(args, tlsArguments("client-tls", dirTLS, dirTLS)...)
		args = append(args, tlsArguments("peer-tls", dirTLS, dirTLS)...)
	}
	return args
}

// etcdToken distinguishes the members of one cluster from those of another that had its names, and
// from those of an etcd whose place it has taken: ids of members follow from it.
func etcdToken(c *v1alpha1.TickMeshCluster, f Facts) string {
	token := string(c.UID)
	if token == "" {
		token = c.Namespace + "-" + c.Name
	}
	if f.EtcdGeneration > 0 {
		token += "-" + strconv.FormatInt(f.EtcdGeneration, 10)
	}
	return token
}

func configVolume(configMap string) corev1.Volume {
	return corev1.Volume{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, DefaultMode: ptr(int32(secretFileMode)),
	}}}
}
