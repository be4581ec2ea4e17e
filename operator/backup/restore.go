package backup

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// RestoreFacts are what a decision about a restore depends on beside its object.
type RestoreFacts struct {
	Now     time.Time
	Cluster ClusterState
	// Source is the backup that spec.source.backupName names; nil: there is none, or none
	// is named.
	Source           *v1alpha1.TickMeshBackup
	Restore, Compare Job
}

// PlanRestore decides about a restore and writes its status.
func PlanRestore(r *v1alpha1.TickMeshRestore, f *RestoreFacts) Decision {
	s := &r.Status.JobStatus
	if Ended(s) {
		s.ObservedGeneration = r.Generation
		return Decision{}
	}
	before := s.Phase
	o, d := stepRestore(r, f)
	o.set(s, r.Generation, f.Now)
	switch {
	case s.Phase == before:
	case s.Phase == v1alpha1.JobPhaseFailed:
		d.Event = warning(o.reason, o.message)
	case s.Phase == v1alpha1.JobPhaseComplete:
		d.Event = normal(o.reason, o.message)
	}
	return d
}

// stepRestore returns how far a restore is that has not ended.
func stepRestore(r *v1alpha1.TickMeshRestore, f *RestoreFacts) (*outcome, Decision) {
	s := &r.Status.JobStatus
	switch f.Restore.State {
	case JobAbsent:
		wait := f.Cluster.waits(r.Spec.ClusterRef.Name)
		if wait == nil {
			wait = sourceWaits(r, f)
		}
		if wait != nil {
			return wait, Decision{After: intervalWaiting}
		}
		if s.StartedAt == nil {
			s.StartedAt = &metav1.Time{Time: f.Now}
		}
		return running(), Decision{Action: ActionRestore}
	case JobRunning:
		return running(), Decision{}
	case JobFailed:
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonRestoreFailed, "the backup could not be restored: " + f.Restore.Message}, Decision{}
	case JobComplete:
	}
	f.Restore.Report.take(s)
	if !r.Spec.Verify {
		set(s, v1alpha1.ConditionVerified, metav1.ConditionFalse, ReasonNotVerified, "spec.verify is false", r.Generation, f.Now)
		return &outcome{v1alpha1.JobPhaseComplete, metav1.ConditionTrue, ReasonWritten, fmt.Sprintf("%d samples", s.Samples)}, Decision{}
	}
	return stepCompare(r, f)
}

// sourceWaits reports why a backup cannot be restored; nil: it can.
func sourceWaits(r *v1alpha1.TickMeshRestore, f *RestoreFacts) *outcome {
	name := r.Spec.Source.BackupName
	switch {
	case name == "":
		return nil
	case f.Source == nil:
		return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonBackupNotFound, "there is no TickMeshBackup " + name + " in this namespace"}
	case f.Source.DeletionTimestamp != nil:
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonBackupNotFound, "the TickMeshBackup " + name + " is being deleted"}
	case meta.IsStatusConditionTrue(f.Source.Status.Conditions, v1alpha1.ConditionFailed):
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonBackupNotComplete, "the TickMeshBackup " + name + " has failed"}
	case !meta.IsStatusConditionTrue(f.Source.Status.Conditions, v1alpha1.ConditionComplete):
		return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonBackupNotComplete, "the TickMeshBackup " + name + " is not complete yet"}
	}
	return nil
}

// stepCompare returns how far a restore is that has written everything.
func stepCompare(r *v1alpha1.TickMeshRestore, f *RestoreFacts) (*outcome, Decision) {
	s := &r.Status.JobStatus
	comparing := &outcome{v1alpha1.JobPhaseVerifying, metav1.ConditionFalse, ReasonVerifying, "cluster and backup are compared"}
	verified := func(status metav1.ConditionStatus, reason, message string) {
		set(s, v1alpha1.ConditionVerified, status, reason, message, r.Generation, f.Now)
	}
	switch f.Compare.State {
	case JobAbsent:
		if r.Spec.Source.BackupName != "" && f.Source == nil {
			message := "all was written; it cannot be compared, as the TickMeshBackup " + r.Spec.Source.BackupName + " is gone"
			verified(metav1.ConditionFalse, ReasonBackupNotFound, message)
			return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonBackupNotFound, message}, Decision{}
		}
		verified(metav1.ConditionUnknown, ReasonVerifying, comparing.message)
		return comparing, Decision{Action: ActionCompare}
	case JobRunning:
		return comparing, Decision{}
	case JobFailed:
		message := "all was written, and the cluster is not as the backup: " + f.Compare.Message
		verified(metav1.ConditionFalse, ReasonCompareFailed, message)
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonCompareFailed, message}, Decision{}
	case JobComplete:
	}
	verified(metav1.ConditionTrue, ReasonVerified, "the cluster has the same samples")
	return &outcome{v1alpha1.JobPhaseComplete, metav1.ConditionTrue, ReasonVerified, fmt.Sprintf("%d samples, compared", s.Samples)}, Decision{}
}
