package v1alpha1

import corev1 "k8s.io/api/core/v1"

// AnnotationRebuildEtcd of a TickMeshCluster is a person's word that the members of its
// managed etcd do not come back: a new one may take their place, though the operator
// cannot know. The value is the generation of the new one, status.etcd.generation + 1, so
// that it is said once for each.
const AnnotationRebuildEtcd = Group + "/rebuild-etcd"

// EtcdSpec is where the shard map is kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.managed) != has(self.external)",message="set either etcd.managed or etcd.external, not both"
// +kubebuilder:validation:XValidation:rule="has(self.managed) == has(oldSelf.managed)",message="etcd cannot be changed between managed and external: create another cluster and restore a backup into it"
type EtcdSpec struct {
	// An etcd that the operator runs: three members, each on a machine of its own, or one
	// below three nodes.
	// +optional
	Managed *ManagedEtcd `json:"managed,omitempty"`
	// An etcd that is there.
	// +optional
	External *ExternalEtcd `json:"external,omitempty"`
}

// ManagedEtcd describes an etcd that the operator runs.
type ManagedEtcd struct {
	// The volume of each member.
	// +kubebuilder:default={}
	// +optional
	Storage EtcdStorage `json:"storage,omitzero"`
	// Processor and memory of each member. Default: requests of 100m and 128Mi, a limit of 384Mi.
	// +kubebuilder:default={requests: {cpu: "100m", memory: "128Mi"}, limits: {memory: "384Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Where the pods of members may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
	// Additions to the pods of members. A change restarts them one at a time.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// ExternalEtcd describes an etcd that is there.
//
// +kubebuilder:validation:XValidation:rule="self.endpoints.all(e, e.startsWith('http://')) || (has(self.tlsSecretName) && self.endpoints.all(e, e.startsWith('https://')))",message="etcd.external.endpoints must all begin with http://, or all with https:// and then need etcd.external.tlsSecretName"
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="etcd.external.clusterName cannot be changed: the shard map is kept under it"
type ExternalEtcd struct {
	// Where it is: https://host:port, or http://host:port without TLS.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^https?://[^/?# ]+:[0-9]+$`
	// +listType=set
	Endpoints []string `json:"endpoints"`
	// Secret with tls.crt, tls.key and ca.crt to connect with; needed for https.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// Name that the shard map is kept under; two clusters that share an etcd need different
	// ones. Cannot be changed. Default: status.storeName, which the operator chooses.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
}
