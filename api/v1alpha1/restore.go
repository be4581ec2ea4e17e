package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TickMeshRestore writes the samples of a backup into a cluster, which may be empty or
// used: samples of the same series and time are replaced, others stay.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tmr
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Samples",type=integer,JSONPath=`.status.samples`
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.finishedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name becomes part of the names of Jobs and pods: choose one of at most 52 small letters, digits and inner hyphens"
type TickMeshRestore struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted. Cannot be changed.
	Spec TickMeshRestoreSpec `json:"spec"`
	// What has become of it.
	// +optional
	Status TickMeshRestoreStatus `json:"status,omitzero"`
}

// TickMeshRestoreList is a list of restores.
//
// +kubebuilder:object:root=true
type TickMeshRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TickMeshRestore `json:"items"`
}

// TickMeshRestoreSpec is what to restore and where to.
//
// +kubebuilder:validation:XValidation:rule="self.clusterRef == oldSelf.clusterRef && self.source == oldSelf.source && self.verify == oldSelf.verify",message="a restore cannot be changed after it was made: create another one"
type TickMeshRestoreSpec struct {
	// The cluster to write into, in the same namespace.
	ClusterRef ClusterReference `json:"clusterRef"`
	// The backup.
	Source RestoreSource `json:"source"`
	// Afterwards compare number and digest of the samples of each metric with the backup;
	// they are the same only in a cluster that was empty. Default: false.
	// +kubebuilder:default=false
	// +optional
	Verify bool `json:"verify"`
	// How long each of its Jobs may take; then it is given up. Default: 24h.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="self.endsWith('d') || self.endsWith('w') || self.endsWith('y') || duration(self) >= duration('1m')",message="timeout must be at least 1m"
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
	// Processor and memory of the Job. Default: requests of 100m and 128Mi, a limit of 512Mi.
	// +kubebuilder:default={requests: {cpu: "100m", memory: "128Mi"}, limits: {memory: "512Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Where the pod of the Job may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
}

// RestoreSource names a backup: by its object, or by where it is.
//
// +kubebuilder:validation:XValidation:rule="has(self.backupName) != has(self.target)",message="set either source.backupName, or source.target with source.position"
// +kubebuilder:validation:XValidation:rule="has(self.target) == has(self.position)",message="source.target and source.position go together: position is the name of the backup's folder in the target"
type RestoreSource struct {
	// Name of a TickMeshBackup in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	BackupName string `json:"backupName,omitempty"`
	// Where the backup is, when its object is gone.
	// +optional
	Target *BackupTarget `json:"target,omitempty"`
	// Name of its folder in the target, which is that of the backup.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Position string `json:"position,omitempty"`
	// Secret whose identities.txt has identities of age that decrypt the backup. Default: that
	// of the TickMeshBackup.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IdentitySecretName string `json:"identitySecretName,omitempty"`
	// Secret whose verify.pem has Ed25519 public keys: a backup that none of them has signed is
	// not restored. Default: that of the TickMeshBackup.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VerifySecretName string `json:"verifySecretName,omitempty"`
}

// TickMeshRestoreStatus is what has become of a restore.
type TickMeshRestoreStatus struct {
	JobStatus `json:",inline"`
}
