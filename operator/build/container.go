package build

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Folders of containers, and the volumes that are mounted there.
const (
	dirData    = "/data"
	dirTLS     = "/etc/tickmesh/tls"
	dirKey     = "/etc/tickmesh/tls-key"
	dirEtcdTLS = "/etc/tickmesh/etcd-tls"
	dirConfig  = "/etc/tickmesh/config"
	dirPod     = "/etc/tickmesh/pod"

	volumeTLS     = "tls"
	volumeKey     = "tls-key"
	volumeEtcdTLS = "etcd-tls"
	volumeConfig  = "config"
	volumePod     = "pod"
)

// portMetrics names the ports that Prometheus asks.
const portMetrics = "http-metrics"

func ptr[T any](v T) *T { return &v }

func hostPort(host string, port int) string { return host + ":" + strconv.Itoa(port) }

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

// secretFileMode allows any user of a pod to read its Secrets; nobody else can see them.
const secretFileMode = 0o444

// secretVolume is a Secret as files. It need not be there when the pod is made.
func secretVolume(name, secret string) corev1.Volume {
	mode := int32(secretFileMode)
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode}}}
}

func configVolume(configMap string) corev1.Volume {
	return corev1.Volume{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, DefaultMode: ptr(int32(secretFileMode)),
	}}}
}

// annotationFile is an annotation of the pod as a file, which is empty until there is one.
func annotationFile(path, annotation string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{
		Path: path, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotation + "']"},
	}
}
