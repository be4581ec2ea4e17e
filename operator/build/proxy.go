package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/envoy"
)

const (
	// An Envoy that is to end takes new connections for envoyAcceptSeconds more, while
	// Kubernetes learns to send them elsewhere; those that there are have envoyDrainSeconds
	// in all.
	envoyAcceptSeconds = 5
	envoyDrainSeconds  = 30
	envoyGraceSeconds  = envoyDrainSeconds + 15
	containerDrain     = "drain"

	volumeEdge     = "edge-tls"
	volumeCA       = "router-ca"
	volumeClientCA = "client-ca"
	dirEnvoyConfig = "/etc/envoy/config"
	dirEnvoyEdge   = "/etc/envoy/edge"
	dirEnvoyCA     = "/etc/envoy/ca"
	bootstrapFile  = "bootstrap.yaml"
)

// EnvoyOptions returns what Envoy is configured with.
func EnvoyOptions(c *v1alpha1.TickMeshCluster) envoy.Options {
	o := envoy.Options{
		Router: ServiceAddress(c, Name(c, ComponentRouter)), Address: "0.0.0.0",
		HTTPPort: PortHTTP, GRPCPort: PortGRPC, PutPort: PortPut, LinePort: PortLine,
		StatusPort: envoy.StatusPortDefault, AdminPort: envoy.AdminPortDefault,
		ConnectionsMax: int(c.Spec.Envoy.ConnectionsMax), AccessLog: c.Spec.Envoy.AccessLog,
	}
	if t := c.Spec.Service.TLS; t != nil {
		o.Edge = &envoy.Edge{Folder: dirEnvoyEdge, Secrets: dirEnvoyConfig, ClientCA: t.ClientCASecretName != ""}
	}
	if routerFrontSecret(c) != "" {
		o.Upstream = &envoy.Upstream{Folder: dirEnvoyCA, Secrets: dirEnvoyConfig, ServerName: ServiceAddress(c, Name(c, ComponentRouter))}
	}
	return o
}

// EnvoyConfigMap makes the configuration of Envoy. Its name has a digest of its contents, and they
// cannot be changed: pods have the configuration that they were made with for as long as they are
// there, and the same contents have the same name whenever they are made again. Errors:
// envoy.ErrOptions, for a namespace or name that is no host name.
func EnvoyConfigMap(c *v1alpha1.TickMeshCluster) (*corev1.ConfigMap, error) {
	options := EnvoyOptions(c)
	bootstrap, err := envoy.Bootstrap(options)
	if err != nil {
		return nil, fmt.Errorf("configuration of Envoy: %w", err)
	}
	files, err := envoy.Secrets(options)
	if err != nil {
		return nil, fmt.Errorf("configuration of Envoy: %w", err)
	}
	data := map[string]string{bootstrapFile: string(bootstrap)}
	for name, text := range files {
		data[name] = string(text)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(c, ComponentEnvoy, Name(c, ComponentEnvoy)+"-"+digest(data)),
		Data:       data, Immutable: ptr(true),
	}, nil
}

// digest returns a word that differs when files do.
func digest(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q=%q\n", name, files[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// EnvoyConfig returns the name of the ConfigMap that a pod of Envoy is configured by; empty: none.
func EnvoyConfig(pod *corev1.PodSpec) string {
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Name == volumeConfig && v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// EnvoyDeployment makes the Deployment of Envoy with a configuration.
func EnvoyDeployment(c *v1alpha1.TickMeshCluster, f Facts, config *corev1.ConfigMap) *appsv1.Deployment {
	spec := &c.Spec.Envoy
	image := spec.Image
	if image == "" {
		image = f.EnvoyImage
	}
	p := pod{
		component: ComponentEnvoy, placement: spec.Placement, additions: spec.PodTemplate, graceSecs: envoyGraceSeconds,
		spread:      spread{topologyKey: c.Spec.Nodes.Zones.TopologyKey},
		annotations: map[string]string{annotationDefaultContainer: ComponentEnvoy},
		ender:       envoyDrain(),
		container: corev1.Container{
			Image: image, Command: []string{"envoy"}, Args: []string{"--config-path", dirEnvoyConfig + "/" + bootstrapFile, "--disable-hot-restart"},
			Resources: spec.Resources, Ports: append(frontPorts(), containerPort(portMetrics, envoy.StatusPortDefault)),
			VolumeMounts: []corev1.VolumeMount{mount(volumeConfig, dirEnvoyConfig)},
		},
		volumes: []corev1.Volume{configVolume(config.Name)},
	}
	p.addEnvoyTLS(c)
	probes(&p.container, envoy.StatusPortDefault, false, "/ready", "/ready")
	d := deployment(c, f, p)
	d.Spec.Replicas = replicas(f, ComponentEnvoy, spec.Replicas, &d.ObjectMeta)
	return d
}

// annotationDefaultContainer names the container that kubectl means.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// envoyDrain makes the container that drains Envoy when the pod is to end: Kubernetes ends
// it first, and Envoy, which is a sidecar for that reason, when it has ended. It reaches
// Envoy's admin interface on the loopback, where no other pod does.
func envoyDrain() *corev1.Container {
	return &corev1.Container{
		Name: containerDrain,
		Args: []string{
			"drain-envoy", "--admin-addr=" + hostPort("127.0.0.1", envoy.AdminPortDefault),
			"--accept=" + strconv.Itoa(envoyAcceptSeconds) + "s", "--timeout=" + strconv.Itoa(envoyDrainSeconds) + "s", "--log-format=json",
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("40Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
	}
}

// addEnvoyTLS mounts the certificate that clients see, the CA of theirs, and that
// of the routers' certificates.
func (p *pod) addEnvoyTLS(c *v1alpha1.TickMeshCluster) {
	if t := c.Spec.Service.TLS; t != nil {
		p.volumes = append(p.volumes, edgeVolume(TLSSecret(c, IdentityEdge), t.ClientCASecretName))
		p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeEdge, dirEnvoyEdge))
	}
	if routerFrontSecret(c) != "" {
		volume := secretVolume(volumeCA, TLSSecret(c, IdentityRouter))
		volume.Secret.Items = []corev1.KeyToPath{{Key: keyCA, Path: keyCA}} // not the key
		p.volumes = append(p.volumes, volume)
		p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeCA, dirEnvoyCA))
	}
}

// edgeVolume joins the certificate that clients see and the CA of theirs in one
// folder.
func edgeVolume(secret, clientCA string) corev1.Volume {
	project := func(name string, keys ...string) corev1.VolumeProjection {
		items := make([]corev1.KeyToPath, 0, len(keys))
		for _, key := range keys {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items}}
	}
	sources := []corev1.VolumeProjection{project(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)}
	if clientCA != "" {
		sources = append(sources, project(clientCA, keyCA))
	}
	return corev1.Volume{Name: volumeEdge, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr(int32(secretFileMode))},
	}}
}
