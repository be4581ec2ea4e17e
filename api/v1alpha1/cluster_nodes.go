package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NodesSpec describes the storage nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.zones.required) || !self.zones.required || !has(self.podTemplate) || !has(self.podTemplate.topologySpreadConstraints) || self.podTemplate.topologySpreadConstraints.all(t, t.topologyKey != self.zones.topologyKey || t.whenUnsatisfiable == 'DoNotSchedule' && t.maxSkew == 1)",message="nodes.zones.required keeps nodes spread evenly over zones, and nodes.podTemplate.topologySpreadConstraints of the same label would not: set its whenUnsatisfiable to DoNotSchedule and its maxSkew to 1, or leave it out"
type NodesSpec struct {
	// How many. Nodes that are more join and the cluster rebalances; nodes that are less are
	// emptied first, the highest number first. Default: 3.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	Count int32 `json:"count,omitempty"`
	// Places that fail together, which copies of a shard are spread over.
	// +kubebuilder:default={}
	// +optional
	Zones ZonesSpec `json:"zones,omitzero"`
	// The volume of each node.
	// +kubebuilder:default={}
	// +optional
	Storage NodeStorage `json:"storage,omitzero"`
	// Processor and memory of each node. The program takes half of the memory limit for Go
	// and an eighth for hot pages. Default: requests of 250m and 1Gi, a limit of 1536Mi.
	// +kubebuilder:default={requests: {cpu: "250m", memory: "1Gi"}, limits: {memory: "1536Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Names of nodes, such as demo-node-1, that are emptied and kept empty until they are
	// taken from this list; nodes of nodeGroups, too.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[a-z][-a-z0-9]*-node-([a-z]([-a-z0-9]*[a-z0-9])?-)?(0|[1-9][0-9]{0,2})$'))",message="nodes.drained takes names of nodes, such as demo-node-1: kubectl get pods -l app.kubernetes.io/component=node shows them"
	// +listType=set
	// +optional
	Drained []string `json:"drained,omitempty"`
	// Where the pods of nodes may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
	// Additions to the pods of nodes. A change restarts them one at a time.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// ZonesSpec is what places fail together.
type ZonesSpec struct {
	// Label of machines that names their zone. A machine without it is a zone of its own.
	// Default: topology.kubernetes.io/zone.
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`
	// Rather leave a node unscheduled than spread nodes unevenly over zones; every machine
	// then needs the label. Two nodes are never on one machine. Default: false, an even
	// spread is preferred only.
	// +optional
	Required bool `json:"required,omitempty"`
}

// DeletionPolicy is what becomes of volumes that are not needed any more: those of
// nodes that were removed, and all of them when the cluster is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	DeletionPolicyRetain DeletionPolicy = "Retain" // claims stay until a person deletes them
	DeletionPolicyDelete DeletionPolicy = "Delete" // claims are deleted
)

// VolumeSpec is what volumes of nodes and of etcd have in common.
type VolumeSpec struct {
	// Storage class; not set: the default one of Kubernetes (on k3s: local-path). That of nodes
	// can be changed: their volumes are then replaced one at a time, each when its node is empty.
	// That of etcd cannot.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// What becomes of volumes that are not needed any more. Default: Retain.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// NodeStorage describes the volume of a storage node.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) || !has(oldSelf.storageClassName)",message="storageClassName cannot be taken away once it is set: volumes would be left as they are; name the class that they are to have"
type NodeStorage struct {
	VolumeSpec `json:",inline"`
	// Size in bytes. It can only grow, if the storage class allows it; what it does not
	// allow can be taken back, to status.volumeSizes. Default: 10Gi.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be more than 0"
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
}

// EtcdStorage describes the volume of a member of etcd.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed: volumes of etcd are not replaced; create another cluster with it and restore a backup into that"
type EtcdStorage struct {
	VolumeSpec `json:",inline"`
	// Size in bytes. It can only grow, if the storage class allows it; what it does not
	// allow can be taken back, to status.volumeSizes. Default: 1Gi.
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be more than 0"
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
}

// Placement is where pods may run, beside the spreading over machines and zones that
// the operator sees to.
type Placement struct {
	// Labels that a machine must have.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Taints that are tolerated.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Rules for machines that labels alone cannot say.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Priority class of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}
