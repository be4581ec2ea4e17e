package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TickMeshBackup is one backup of a cluster: every write that was acknowledged before
// it began.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tmb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Samples",type=integer,JSONPath=`.status.samples`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.bytes`
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.finishedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name becomes part of the names of Jobs and pods: choose one of at most 52 small letters, digits and inner hyphens"
type TickMeshBackup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self.clusterRef == oldSelf.clusterRef && self.target == oldSelf.target && self.incremental == oldSelf.incremental && self.verify == oldSelf.verify && has(self.encryption) == has(oldSelf.encryption) && (!has(self.encryption) || self.encryption == oldSelf.encryption) && has(self.signing) == has(oldSelf.signing) && (!has(self.signing) || self.signing == oldSelf.signing)",message="a backup cannot be changed after it was made: create another one"
	Spec TickMeshBackupSpec `json:"spec"`
	// What has become of it.
	// +optional
	Status TickMeshBackupStatus `json:"status,omitzero"`
}

// TickMeshBackupList is a list of backups.
//
// +kubebuilder:object:root=true
type TickMeshBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TickMeshBackup `json:"items"`
}

// TickMeshBackupSpec is what to back up and where to.
//
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.encryption.identitySecretName) || !self.incremental && !self.verify",message="incremental and verify read what is encrypted: set encryption.identitySecretName"
type TickMeshBackupSpec struct {
	// The cluster, in the same namespace.
	ClusterRef ClusterReference `json:"clusterRef"`
	// Where it is written to. A target can have many backups, which share what is the same.
	Target BackupTarget `json:"target"`
	// Copy only what has changed since the last complete backup of the cluster at the same
	// target. Each backup stands for itself all the same. Default: false, everything is
	// copied.
	// +kubebuilder:default=false
	// +optional
	Incremental bool `json:"incremental"`
	// Afterwards restore it into an empty server and compare number and digest of the
	// samples. Default: false.
	// +kubebuilder:default=false
	// +optional
	Verify bool `json:"verify"`
	// How long it is kept after it is complete: then this object and its data are deleted;
	// 0: for ever. Default: 0.
	// +kubebuilder:default="0"
	// +optional
	TTL Duration `json:"ttl,omitempty"`
	// What becomes of the data when somebody deletes this object: Retain leaves them in the
	// target, Delete deletes them. Those whose time is over, by ttl or by keep of a schedule,
	// are deleted with either. Default: Retain.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// How long each of its Jobs may take; then it is given up. Default: 24h.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="self.endsWith('d') || self.endsWith('w') || self.endsWith('y') || duration(self) >= duration('1m')",message="timeout must be at least 1m"
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
	// Encrypts the backup. Default: it is not encrypted.
	// +optional
	Encryption *BackupEncryption `json:"encryption,omitempty"`
	// Signs the backup. Default: it is not signed.
	// +optional
	Signing *BackupSigning `json:"signing,omitempty"`
	// Processor and memory of the Job. Default: requests of 100m and 128Mi, a limit of 512Mi.
	// +kubebuilder:default={requests: {cpu: "100m", memory: "128Mi"}, limits: {memory: "512Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Where the pod of the Job may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
}

// AnnotationExpired of a TickMeshBackup says that its time is over, so that its data go with
// it, whatever its deletion policy is.
const AnnotationExpired = Group + "/expired"

// BackupEncryption is for whom a backup is encrypted, with age.
type BackupEncryption struct {
	// Recipients of age (age1…): who has an identity of one of them can read the backup.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:Pattern=`^age1[0-9a-z]+$`
	// +listType=set
	Recipients []string `json:"recipients"`
	// Secret whose identities.txt has identities of age (AGE-SECRET-KEY-1…), in the same
	// namespace. Incremental backups and verify need it, so does a backup that goes on after
	// its pod was lost, and the deletion of data while the target has encrypted backups.
	// Restores take it unless they name another.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IdentitySecretName string `json:"identitySecretName,omitempty"`
}

// BackupSigning is which key signs a backup, and which keys are trusted.
type BackupSigning struct {
	// Secret whose signing.pem has an Ed25519 private key, in the same namespace. Only Jobs
	// that write backups have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Secret whose verify.pem has Ed25519 public keys, that of the private key among them: a
	// backup that none of them has signed is neither built upon, verified nor restored.
	// Default: signatures are not looked at when the backup is verified or restored. Restores
	// take it unless they name another.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VerifySecretName string `json:"verifySecretName,omitempty"`
}

// ClusterReference names a TickMeshCluster in the same namespace.
type ClusterReference struct {
	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// BackupTarget is where backups are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.volume) != has(self.s3)",message="set either target.volume or target.s3, not both"
type BackupTarget struct {
	// A folder of a volume.
	// +optional
	Volume *VolumeTarget `json:"volume,omitempty"`
	// A bucket of S3-compatible storage.
	// +optional
	S3 *S3Target `json:"s3,omitempty"`
}

// VolumeTarget is a folder of a volume.
type VolumeTarget struct {
	// Claim of the volume, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// Folder in it; empty: its root.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$`
	// +optional
	Path string `json:"path,omitempty"`
}

// S3Target is a bucket of S3-compatible storage.
type S3Target struct {
	// Where it is, as https://host or http://host:port.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^/?# ]+$`
	Endpoint string `json:"endpoint"`
	// Its name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket"`
	// What the keys of objects begin with; empty: nothing.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$`
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// Region; empty: what the storage takes without one.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Region string `json:"region,omitempty"`
	// Secret with accessKeyID and secretAccessKey, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Secret whose ca.crt has the CA of the storage's certificate; empty: the
	// system's CAs.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	CASecretName string `json:"caSecretName,omitempty"`
}

// JobPhase is the state of a backup or restore in one word.
type JobPhase string

// Values of JobPhase.
const (
	JobPhasePending   JobPhase = "Pending"   // it waits: status.conditions say for what
	JobPhaseRunning   JobPhase = "Running"   // its Job runs
	JobPhaseVerifying JobPhase = "Verifying" // what was written is compared
	JobPhaseComplete  JobPhase = "Complete"  // all is done
	JobPhaseFailed    JobPhase = "Failed"    // it was given up
)

// Types of conditions of backups and restores.
const (
	// ConditionComplete: all is done, and verified where that was asked for.
	ConditionComplete = "Complete"
	// ConditionFailed: it was given up.
	ConditionFailed = "Failed"
	// ConditionVerified: what was written has been restored and compared.
	ConditionVerified = "Verified"
)

// JobStatus is what backups and restores tell alike.
type JobStatus struct {
	// Generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Complete, Failed and Verified.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// In one word, for people; programs go by the conditions.
	// +optional
	Phase JobPhase `json:"phase,omitempty"`
	// When its Job was started. A backup holds every write that was acknowledged before.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it was complete or given up.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Bytes of all of its objects, also of those that it shares with other backups.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Samples in it.
	// +optional
	Samples int64 `json:"samples,omitempty"`
	// Series in it.
	// +optional
	Series int64 `json:"series,omitempty"`
}

// TickMeshBackupStatus is what has become of a backup.
type TickMeshBackupStatus struct {
	JobStatus `json:",inline"`
	// Its name in the target.
	// +optional
	Position string `json:"position,omitempty"`
	// Id of the cluster that it is of.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
}
