package build

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

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

func (p *pod) addEtcdTLS(c *v1alpha1.TickMeshCluster) {
	if etcdTLSFolder(c) == dirEtcdTLS {
		p.addSecret(volumeEtcdTLS, c.Spec.Etcd.External.TLSSecretName, dirEtcdTLS)
	}
}
