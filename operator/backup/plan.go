package backup

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Action is what to do next; at most one thing at a time.
type Action string

// Values of Action.
const (
	ActionNone         Action = ""             // nothing
	ActionHold         Action = "Hold"         // add the finalizer
	ActionBackup       Action = "Backup"       // make the Job that writes the backup
	ActionVerify       Action = "Verify"       // make the Job that restores it to compare
	ActionStop         Action = "Stop"         // delete the Jobs that write or verify, and their pods
	ActionDelete       Action = "Delete"       // make the Job that deletes the data
	ActionRetryDelete  Action = "RetryDelete"  // delete that Job, so that it is made again
	ActionRelease      Action = "Release"      // take the finalizer away
	ActionDeleteObject Action = "DeleteObject" // delete the TickMeshBackup, which then deletes its data
	ActionRestore      Action = "Restore"      // make the Job that writes into the cluster
	ActionCompare      Action = "Compare"      // make the Job that compares
)

// Event is something to tell of once.
type Event struct{ Kind, Reason, Note string }

// Decision is what follows from what is seen.
type Decision struct {
	Action Action
	After  time.Duration // when to look again if nothing happens; 0: not needed
	Event  *Event
}

// Reasons of conditions.
const (
	ReasonClusterNotFound   = "ClusterNotFound"
	ReasonClusterPaused     = "ClusterPaused"
	ReasonClusterHibernated = "ClusterHibernated"
	ReasonBackupNotFound    = "BackupNotFound"
	ReasonBackupNotComplete = "BackupNotComplete"
	ReasonRunning           = "Running"
	ReasonVerifying         = "Verifying"
	ReasonWritten           = "Written"
	ReasonVerified          = "RestoredAndCompared"
	ReasonNotVerified       = "NotAskedFor"
	ReasonBackupFailed      = "BackupFailed"
	ReasonVerifyFailed      = "VerifyFailed"
	ReasonRestoreFailed     = "RestoreFailed"
	ReasonCompareFailed     = "CompareFailed"
	ReasonDeleting          = "DeletingData"
	ReasonDeleteFailed      = "DeleteFailed"
	ReasonRetained          = "DataRetained"
	ReasonExpired           = "Expired"
)

const (
	intervalWaiting = 30 * time.Second // for what is not there yet
	// retryDeleteAfter is from the end of a Job that could not delete data to the next one.
	retryDeleteAfter = 10 * time.Minute
)

// outcome is what a step of a backup or restore has come to.
type outcome struct {
	phase    v1alpha1.JobPhase
	complete metav1.ConditionStatus
	reason   string
	message  string
}

// set writes phase, Complete and Failed.
func (o *outcome) set(s *v1alpha1.JobStatus, generation int64, now time.Time) {
	s.ObservedGeneration, s.Phase = generation, o.phase
	failed := metav1.ConditionFalse
	if o.phase == v1alpha1.JobPhaseFailed {
		failed = metav1.ConditionTrue
	}
	set(s, v1alpha1.ConditionComplete, o.complete, o.reason, o.message, generation, now)
	set(s, v1alpha1.ConditionFailed, failed, o.reason, o.message, generation, now)
	if (o.phase == v1alpha1.JobPhaseComplete || o.phase == v1alpha1.JobPhaseFailed) && s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: now}
	}
}

func set(s *v1alpha1.JobStatus, kind string, status metav1.ConditionStatus, reason, message string, generation int64, now time.Time) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// Ended reports whether a backup or restore is complete or was given up.
func Ended(s *v1alpha1.JobStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete) || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionFailed)
}

// Runs reports whether a Job works for a backup or restore: not while it waits for its cluster, also
// when it had begun before its Job was made, or was lost.
func Runs(s *v1alpha1.JobStatus) bool {
	return s.Phase == v1alpha1.JobPhaseRunning || s.Phase == v1alpha1.JobPhaseVerifying
}

// take takes the figures of a report.
func (r *Report) take(s *v1alpha1.JobStatus) {
	if r != nil {
		s.Bytes, s.Samples, s.Series = r.Bytes, r.Samples, r.Series
	}
}

// ClusterState is what a backup or restore has to know of its cluster.
type ClusterState struct {
	Exists bool // and is not being deleted
	Paused bool
	Rests  bool // it sleeps, falls asleep or wakes
	UID    string
}

// waits reports why nothing can begin with a cluster; nil: it can.
func (c ClusterState) waits(name string) *outcome {
	switch {
	case !c.Exists:
		return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonClusterNotFound, "there is no TickMeshCluster " + name + " in this namespace"}
	case c.Paused:
		return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonClusterPaused, "the TickMeshCluster " + name + " is paused: set spec.paused to false"}
	}
	if c.Rests {
		return &outcome{v1alpha1.JobPhasePending, metav1.ConditionFalse, ReasonClusterHibernated, "the TickMeshCluster " + name + " is hibernated, or wakes: it begins when that is over"}
	}
	return nil
}

func normal(reason, note string) *Event { return &Event{corev1.EventTypeNormal, reason, note} }

func warning(reason, note string) *Event { return &Event{corev1.EventTypeWarning, reason, note} }

// once returns an event only if it is told with a change.
func once(changed bool, e *Event) *Event {
	if changed {
		return e
	}
	return nil
}
