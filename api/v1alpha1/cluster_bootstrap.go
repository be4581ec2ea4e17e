package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationBootstrap of a TickMeshCluster with the value BootstrapSkip is a person's word that the
// backup of spec.bootstrap is not wanted any more, and that clients are let in.
const (
	AnnotationBootstrap = Group + "/bootstrap"
	BootstrapSkip       = "skip"
)

// BootstrapSpec is what a new cluster begins with.
type BootstrapSpec struct {
	// The backup that is restored, once, before clients are let in.
	FromBackup RestoreSource `json:"fromBackup"`
	// Afterwards compare number and digest of the samples of each metric with the backup.
	// Default: false.
	// +kubebuilder:default=false
	// +optional
	Verify bool `json:"verify"`
}

// BootstrapPhase is how far a new cluster is with its backup.
//
// +kubebuilder:validation:Enum=Pending;Restoring;Complete;Failed;Skipped
type BootstrapPhase string

// Values of BootstrapPhase.
const (
	BootstrapPending   BootstrapPhase = "Pending"   // the cluster does not take writes yet
	BootstrapRestoring BootstrapPhase = "Restoring" // a TickMeshRestore is under way
	BootstrapComplete  BootstrapPhase = "Complete"  // it never is again
	BootstrapFailed    BootstrapPhase = "Failed"    // it waits for a person
	BootstrapSkipped   BootstrapPhase = "Skipped"   // the cluster was not new, or a person has said so
)

// BootstrapStatus describes what a new cluster began with.
type BootstrapStatus struct {
	// How far it is.
	Phase BootstrapPhase `json:"phase"`
	// Name of the TickMeshRestore.
	// +optional
	RestoreName string `json:"restoreName,omitempty"`
	// When it was complete.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}
