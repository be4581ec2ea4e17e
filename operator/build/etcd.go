package build

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	etcdGraceSeconds = 30
	etcdConfigFile   = "etcd.yaml"
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
