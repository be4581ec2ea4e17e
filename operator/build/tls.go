package build

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func tlsArguments(prefix, dir, keyDir string) []string {
	return []string{
		"--" + prefix + "-cert=" + dir + "/" + corev1.TLSCertKey, "--" + prefix + "-key=" + keyDir + "/" + corev1.TLSPrivateKeyKey,
		"--" + prefix + "-ca=" + dir + "/" + keyCA,
	}
}

func (p *pod) addSecret(volume, secret, dir string) {
	p.volumes = append(p.volumes, secretVolume(volume, secret))
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volume, dir))
}

// keyDir returns the folder of the key that belongs to the certificates of a folder.
func keyDir(c *v1alpha1.TickMeshCluster, identity, dir string) string {
	if identity == IdentityNode && dir == dirTLS && NodesKeepKeys(c) {
		return dirKey
	}
	return dir
}
