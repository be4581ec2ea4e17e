package backup

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// BackupFacts are what a decision about a backup depends on beside its object.
type BackupFacts struct {
	Now     time.Time
	Cluster ClusterState
	// Held reports that the finalizer is there, which keeps the object until its data are
	// deleted.
	Held                   bool
	Backup, Verify, Delete Job
}

// PlanBackup decides about a backup and writes its status.
func PlanBackup(b *v1alpha1.TickMeshBackup, f *BackupFacts) Decision {
	before := b.Status.Phase
	switch {
	case b.DeletionTimestamp != nil:
		return planDeletion(b, f)
	case Ended(&b.Status.JobStatus):
		b.Status.ObservedGeneration = b.Generation
		return planExpiry(b, f)
	}
	o, d := stepBackup(b, f)
	o.set(&b.Status.JobStatus, b.Generation, f.Now)
	switch {
	case b.Status.Phase == before:
	case b.Status.Phase == v1alpha1.JobPhaseFailed:
		d.Event = warning(o.reason, o.message)
	case b.Status.Phase == v1alpha1.JobPhaseComplete:
		d.Event = normal(o.reason, o.message)
	}
	if b.Status.Phase == v1alpha1.JobPhaseComplete {
		d.After = timeLeft(b, f.Now)
	}
	return d
}

// stepBackup returns how far a backup is that has not ended.
func stepBackup(b *v1alpha1.TickMeshBackup, f *BackupFacts) (*outcome, Decision) {
	s := &b.Status
	switch f.Backup.State {
	case JobAbsent:
		if wait := f.Cluster.waits(b.Spec.ClusterRef.Name); wait != nil {
			return wait, Decision{After: intervalWaiting}
		}
		if !f.Held {
			return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonRunning, "it is about to begin"}, Decision{Action: ActionHold}
		}
		if s.StartedAt == nil {
			s.StartedAt = &metav1.Time{Time: f.Now}
		}
		s.Position, s.ClusterID = b.Name, f.Cluster.UID
		return running(), Decision{Action: ActionBackup}
	case JobFailed:
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonBackupFailed, "the backup could not be written: " + f.Backup.Message}, Decision{}
	case JobRunning:
		return running(), Decision{}
	case JobComplete:
	}
	f.Backup.Report.take(&s.JobStatus)
	if !b.Spec.Verify {
		set(&s.JobStatus, v1alpha1.ConditionVerified, metav1.ConditionFalse, ReasonNotVerified, "spec.verify is false", b.Generation, f.Now)
		return &outcome{v1alpha1.JobPhaseComplete, metav1.ConditionTrue, ReasonWritten, written(s)}, Decision{}
	}
	return stepVerify(b, f)
}

func running() *outcome {
	return &outcome{v1alpha1.JobPhaseRunning, metav1.ConditionFalse, ReasonRunning, "its Job runs"}
}

func written(s *v1alpha1.TickMeshBackupStatus) string {
	return fmt.Sprintf("%d samples of %d series", s.Samples, s.Series)
}

// stepVerify returns how far a backup is that has been written.
func stepVerify(b *v1alpha1.TickMeshBackup, f *BackupFacts) (*outcome, Decision) {
	s := &b.Status
	verifying := &outcome{v1alpha1.JobPhaseVerifying, metav1.ConditionFalse, ReasonVerifying, "it is restored into a server of its own, to compare"}
	verified := func(status metav1.ConditionStatus, reason, message string) {
		set(&s.JobStatus, v1alpha1.ConditionVerified, status, reason, message, b.Generation, f.Now)
	}
	switch f.Verify.State {
	case JobAbsent:
		verified(metav1.ConditionUnknown, ReasonVerifying, verifying.message)
		return verifying, Decision{Action: ActionVerify}
	case JobRunning:
		return verifying, Decision{}
	case JobFailed:
		message := "the backup was written, and is not what it should be, or could not be restored: " + f.Verify.Message
		verified(metav1.ConditionFalse, ReasonVerifyFailed, message)
		return &outcome{v1alpha1.JobPhaseFailed, metav1.ConditionFalse, ReasonVerifyFailed, message}, Decision{}
	case JobComplete:
	}
	verified(metav1.ConditionTrue, ReasonVerified, "restored into an empty server, it has the same samples")
	return &outcome{v1alpha1.JobPhaseComplete, metav1.ConditionTrue, ReasonVerified, written(s) + ", restored and compared"}, Decision{}
}

// timeLeft returns when a complete backup expires; 0: never.
func timeLeft(b *v1alpha1.TickMeshBackup, now time.Time) time.Duration {
	ttl, err := b.Spec.TTL.Parse()
	if err != nil || ttl <= 0 || b.Status.FinishedAt == nil || !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete) {
		return 0
	}
	return max(b.Status.FinishedAt.Add(ttl).Sub(now), 1) // what is over is not never
}

// planExpiry deletes a backup whose time is over.
func planExpiry(b *v1alpha1.TickMeshBackup, f *BackupFacts) Decision {
	left := timeLeft(b, f.Now)
	if left == 1 {
		return Decision{Action: ActionDeleteObject, Event: normal(ReasonExpired, "spec.ttl is over: the backup and its data are deleted")}
	}
	return Decision{After: left}
}

// planDeletion deletes the data of a backup whose object is being deleted, or leaves them, as
// its policy says.
func planDeletion(b *v1alpha1.TickMeshBackup, f *BackupFacts) Decision {
	o := outcome{phase: b.Status.Phase, complete: metav1.ConditionFalse, reason: ReasonDeleting, message: "the data of the backup are being deleted"}
	retained := b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete && b.Annotations[v1alpha1.AnnotationExpired] == ""
	if retained {
		o.message = "the backup is being forgotten; its data stay in the target"
	}
	defer func() { o.set(&b.Status.JobStatus, b.Generation, f.Now) }()
	failedBefore := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionComplete)
	switch {
	case !f.Held:
		return Decision{}
	case b.Status.StartedAt == nil && f.Backup.State == JobAbsent && f.Delete.State == JobAbsent:
		return Decision{Action: ActionRelease} // nothing was ever written
	case f.Backup.State == JobRunning || f.Verify.State == JobRunning:
		return Decision{Action: ActionStop, After: intervalWaiting}
	}
	if retained {
		return Decision{Action: ActionRelease, Event: normal(ReasonRetained, "the data of the backup stay in its target, as spec.deletionPolicy is Retain")}
	}
	switch f.Delete.State {
	case JobAbsent:
		return Decision{Action: ActionDelete}
	case JobComplete:
		return Decision{Action: ActionRelease}
	case JobFailed:
		if f.Now.Sub(f.Delete.EndedAt) >= retryDeleteAfter {
			return Decision{Action: ActionRetryDelete}
		}
		o.reason = ReasonDeleteFailed
		o.message = "the data could not be deleted, which is tried again; to keep or forget them, take the finalizer " + Finalizer + " away: " + f.Delete.Message
		changed := failedBefore == nil || failedBefore.Reason != ReasonDeleteFailed
		return Decision{After: retryDeleteAfter - f.Now.Sub(f.Delete.EndedAt), Event: once(changed, warning(ReasonDeleteFailed, o.message))}
	case JobRunning:
	}
	return Decision{}
}

// Finalizer of a TickMeshBackup keeps it until its data are deleted.
const Finalizer = v1alpha1.Group + "/backup-data"
