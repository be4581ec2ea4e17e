package build

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// Names of what has a node's pod make its own key.
const (
	// ContainerRequest makes the key, and leaves the request for its certificate as its
	// termination message, which only the machine of the pod can write.
	ContainerRequest = "certificate-request"
	containerAwait   = "certificate-await"
)

// KeepsKey reports whether a pod makes its own key.
func KeepsKey(p *corev1.PodSpec) bool {
	return slices.ContainsFunc(p.InitContainers, func(c corev1.Container) bool { return c.Name == ContainerRequest })
}

// CertificateImage returns the image that a pod's key is made with; empty: it makes none.
func CertificateImage(p *corev1.PodSpec) string {
	for i := range p.InitContainers {
		if p.InitContainers[i].Name == ContainerRequest {
			return p.InitContainers[i].Image
		}
	}
	return ""
}

// NodeIdentity returns the identity in the certificate of a node that has its own.
func NodeIdentity(c *v1alpha1.TickMeshCluster, podName string) certificate.Identity {
	return certificate.Identity{
		CommonName: podName, Hosts: append(hostNames(PodAddress(c, ComponentNode, podName)), "localhost"),
		Name: certificate.Name{Cluster: StoreName(c), Role: certificate.RoleNode, ID: podName},
	}
}

// keySize is more than the key of a certificate takes.
const keySize = "64Ki"

// addOwnKey adds to a pod a key of its own, in memory, and files with the certificate that the
// operator signs, which follow the pod's annotations. The containers that ask for it run
// before the node, so that one of any older image starts with files as it always had them.
func (p *pod) addOwnKey(c *v1alpha1.TickMeshCluster, f Facts, resources corev1.ResourceRequirements) {
	p.volumes = append(p.volumes,
		corev1.Volume{Name: volumeKey, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr(resource.MustParse(keySize)),
		}}},
		corev1.Volume{Name: volumeTLS, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			DefaultMode: ptr(int32(secretFileMode)),
			Items: []corev1.DownwardAPIVolumeFile{
				annotationFile(corev1.TLSCertKey, pki.AnnotationCertificate), annotationFile(keyCA, pki.AnnotationCABundle),
			},
		}}})
	key := mount(volumeKey, dirKey)
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeTLS, dirTLS), key)
	writable := key
	writable.ReadOnly = false
	keyFile := dirKey + "/" + corev1.TLSPrivateKeyKey
	p.before = []corev1.Container{
		{
			Name: ContainerRequest, Image: f.CertificateImage, Env: []corev1.EnvVar{envPodName()}, Resources: resources,
			Args:         []string{"certs", "request", "--cluster=" + StoreName(c), "--key=" + keyFile, "--out=" + corev1.TerminationMessagePathDefault, "node/$(POD_NAME)"},
			VolumeMounts: []corev1.VolumeMount{writable},
		},
		{
			Name: containerAwait, Image: f.CertificateImage, Resources: resources,
			Args:         []string{"certs", "await", "--cert=" + dirTLS + "/" + corev1.TLSCertKey, "--key=" + keyFile, "--ca=" + dirTLS + "/" + keyCA},
			VolumeMounts: []corev1.VolumeMount{mount(volumeTLS, dirTLS), key},
		},
	}
}
