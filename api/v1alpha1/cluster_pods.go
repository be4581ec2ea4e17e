package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodTemplate has additions to the pods of a component. What the operator sets itself cannot be
// changed by it: rules refuse what would, and volumes have names of their own.
//
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="podTemplate.volumeMounts names a volume that podTemplate.volumes has not: add it there, or correct the name"
type PodTemplate struct {
	// Labels of the pods, beside those of the operator.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 316 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="podTemplate.labels has a key that is none: expected name or example.com/name, with letters, digits, hyphens, underscores and dots"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^(app[.]kubernetes[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io|([^/]*[.])?tickmesh[.]dev)/') || k == 'pod-template-hash' || k == 'controller-revision-hash')",message="podTemplate.labels cannot have those by which the operator and Kubernetes find their pods (app.kubernetes.io/…, apps.kubernetes.io/…, statefulset.kubernetes.io/…, tickmesh.dev/…, pod-template-hash, controller-revision-hash): choose another key"
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the pods, beside those of the operator.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 316 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="podTemplate.annotations has a key that is none: expected name or example.com/name, with letters, digits, hyphens, underscores and dots"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^(kubectl[.]kubernetes[.]io|([^/]*[.])?tickmesh[.]dev)/'))",message="podTemplate.annotations cannot have those that the operator writes (tickmesh.dev/…, kubectl.kubernetes.io/…): choose another key"
	// +optional
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
	// Environment of the component's container, beside that of the operator.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []PodVariable `json:"env,omitempty"`
	// Volumes of the pods, beside those of the operator. A pod has them with extra- before
	// their names.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Volumes []PodVolume `json:"volumes,omitempty"`
	// Where the component's container sees these volumes.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	VolumeMounts []PodMount `json:"volumeMounts,omitempty"`
	// How the pods of the component are spread over places, beside machines and zones, which
	// the operator sees to. One of the zones' label takes the place of the operator's own.
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=topologyKey
	// +optional
	TopologySpreadConstraints []PodSpread `json:"topologySpreadConstraints,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// PodVariable is a variable of the environment.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('TICKMESH_') && !self.name.startsWith('POD_')",message="podTemplate.env cannot have TICKMESH_… and POD_…, which are the operator's: what it lets be set is a field of the spec"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.secretKeyRef) && !has(self.configMapKeyRef)",message="set one of value, secretKeyRef and configMapKeyRef of a variable in podTemplate.env"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef) || !has(self.configMapKeyRef)",message="set one of value, secretKeyRef and configMapKeyRef of a variable in podTemplate.env"
type PodVariable struct {
	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Name string `json:"name"`
	// Its value.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Value string `json:"value,omitempty"`
	// Key of a Secret that has the value.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// Key of a ConfigMap that has the value.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// KeyReference names a key of a Secret or ConfigMap in the same namespace.
type KeyReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// The key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
	// Start without the object or the key. Default: false, pods wait for it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// PodVolume is a volume of the pods of a component. Kinds by which a pod reaches its machine are
// not taken.
//
// +kubebuilder:validation:XValidation:rule="(has(self.secret) ? 1 : 0) + (has(self.configMap) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) + (has(self.persistentVolumeClaim) ? 1 : 0) + (has(self.csi) ? 1 : 0) == 1",message="each of podTemplate.volumes has one of secret, configMap, emptyDir, persistentVolumeClaim and csi"
type PodVolume struct {
	// Its name.
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// A Secret of this namespace.
	// +optional
	Secret *PodVolumeSecret `json:"secret,omitempty"`
	// A ConfigMap of this namespace.
	// +optional
	ConfigMap *PodVolumeConfigMap `json:"configMap,omitempty"`
	// A folder that is empty when the pod starts.
	// +optional
	EmptyDir *PodVolumeEmptyDir `json:"emptyDir,omitempty"`
	// A claim of this namespace, which all pods of the component share.
	// +optional
	PersistentVolumeClaim *PodVolumeClaim `json:"persistentVolumeClaim,omitempty"`
	// A volume that a driver makes for the pod, such as one with secrets.
	// +optional
	CSI *PodVolumeCSI `json:"csi,omitempty"`
}

// PodVolumeSecret is a Secret as a volume.
type PodVolumeSecret struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName"`
	// Start without the Secret. Default: false, pods wait for it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// PodVolumeConfigMap is a ConfigMap as a volume.
type PodVolumeConfigMap struct {
	// Name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// Start without the ConfigMap. Default: false, pods wait for it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// PodVolumeEmptyDir is a folder that is empty when the pod starts.
type PodVolumeEmptyDir struct {
	// Memory keeps it in memory, which counts for the limit of the container. Default: on the
	// disk of the machine.
	// +kubebuilder:validation:Enum="";Memory
	// +optional
	Medium corev1.StorageMedium `json:"medium,omitempty"`
	// Bytes that it may take. Default: no limit.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// PodVolumeClaim is a claim as a volume.
type PodVolumeClaim struct {
	// Name of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClaimName string `json:"claimName"`
	// Take no writes, of any pod. Default: false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// PodVolumeCSI is a volume that a driver makes for the pod.
type PodVolumeCSI struct {
	// Name of the driver.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Driver string `json:"driver"`
	// Take no writes. Default: false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// What the driver is told.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	VolumeAttributes map[string]string `json:"volumeAttributes,omitempty"`
}

// PodMount is where a container sees a volume.
//
// +kubebuilder:validation:XValidation:rule="!self.mountPath.matches('^/(etc|data(/.*)?|etc/(tickmesh|envoy)(/.*)?|(bin|boot|dev|lib|lib64|proc|run|sbin|sys|usr|tickmesh)(/.*)?|var(/run(/.*)?)?)$')",message="podTemplate.volumeMounts cannot hide what the container runs on (/data, /etc/tickmesh, /etc/envoy, programs, and folders of the system): choose another folder, such as /mnt/name"
type PodMount struct {
	// Name of one of volumes.
	// +kubebuilder:validation:MaxLength=57
	Name string `json:"name"`
	// Folder, or a file with subPath.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^(/[.]?[A-Za-z0-9_][A-Za-z0-9_.-]*)+$`
	MountPath string `json:"mountPath"`
	// What is mounted of the volume; empty: its root.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[.]?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[.]?[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`
	// +optional
	SubPath string `json:"subPath,omitempty"`
	// Take no writes. Default: false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// PodSpread spreads the pods of a component over places.
type PodSpread struct {
	// Label of machines that names the place.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey"`
	// By how many pods two places may differ. Default: 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// What is done where they would differ more: ScheduleAnyway or DoNotSchedule.
	// Default: ScheduleAnyway.
	// +kubebuilder:default=ScheduleAnyway
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	// +optional
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`
}
