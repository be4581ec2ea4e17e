package backup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/calendar"
)

// Reasons of a schedule's condition and events.
const (
	ReasonScheduled       = "Scheduled"
	ReasonSuspended       = "Suspended"
	ReasonInvalidSchedule = "InvalidSchedule"
	ReasonPruned          = "Pruned"
)

// ScheduleDecision is what follows for a schedule.
type ScheduleDecision struct {
	Create *v1alpha1.TickMeshBackup // nil: none
	Delete []string                 // names of backups that are not kept
	After  time.Duration            // when to look again; 0: only when something changes
}

// PlanSchedule decides about a schedule, given all of its backups and its cluster, and writes its
// status. While the cluster sleeps no backup is made; the newest time that was missed is caught up
// with once.
func PlanSchedule(s *v1alpha1.TickMeshBackupSchedule, backups []v1alpha1.TickMeshBackup, cluster ClusterState, now time.Time) (d ScheduleDecision) {
	st := &s.Status
	st.ObservedGeneration = s.Generation
	ready := func(status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message,
			ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	d.Delete = surplus(backups, int(max(s.Spec.Keep, 1)))
	st.Active = ""
	for i := range backups {
		b := &backups[i]
		if !Ended(&b.Status.JobStatus) && b.DeletionTimestamp == nil {
			st.Active = b.Name
		}
		if at := b.Status.FinishedAt; complete(b) && at != nil && (st.LastSuccessAt == nil || st.LastSuccessAt.Before(at)) {
			st.LastSuccessAt, st.LastSuccess = at.DeepCopy(), b.Name
		}
	}
	st.NextScheduledAt = nil
	times, err := calendar.Parse(s.Spec.Schedule, s.Spec.TimeZone)
	switch {
	case err != nil:
		ready(metav1.ConditionFalse, ReasonInvalidSchedule, "spec."+err.Error())
		return d
	case s.Spec.Suspend:
		ready(metav1.ConditionTrue, ReasonSuspended, "spec.suspend is true: no backups are made")
		return d
	case cluster.Rests:
		ready(metav1.ConditionTrue, ReasonClusterHibernated, "the cluster is hibernated, or wakes: no backups are made")
		d.After = intervalWaiting
		return d
	}
	ready(metav1.ConditionTrue, ReasonScheduled, "backups are made at their times")
	after := s.CreationTimestamp.Time
	if st.LastScheduledAt != nil {
		after = st.LastScheduledAt.Time
	}
	due := calendar.Latest(times, after, now)
	if !due.IsZero() && st.Active == "" {
		d.Create = made(s, due)
		st.LastScheduledAt, st.Active = &metav1.Time{Time: due}, d.Create.Name
	}
	next := times.Next(now)
	if next.IsZero() {
		return d // it never comes, as 30 February
	}
	st.NextScheduledAt = &metav1.Time{Time: next}
	d.After = next.Sub(now)
	return d
}

func complete(b *v1alpha1.TickMeshBackup) bool {
	return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete)
}

// made returns the backup for a time. Its name follows from that, so that it is made once.
func made(s *v1alpha1.TickMeshBackupSchedule, due time.Time) *v1alpha1.TickMeshBackup {
	labels := maps.Clone(s.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelSchedule] = s.Name
	return &v1alpha1.TickMeshBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, due.Unix()/60), Labels: labels},
		Spec:       *s.Spec.Template.Spec.DeepCopy(),
	}
}

// surplus returns the names of backups that are not kept: beyond so many, the newest, of the
// complete ones, and of those that failed.
func surplus(backups []v1alpha1.TickMeshBackup, keep int) (names []string) {
	order := slices.Clone(backups)
	slices.SortFunc(order, func(a, b v1alpha1.TickMeshBackup) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	kept := map[bool]int{} // by whether they are complete
	for i := range order {
		b := &order[i]
		if !Ended(&b.Status.JobStatus) || b.DeletionTimestamp != nil {
			continue
		}
		if kept[complete(b)]++; kept[complete(b)] > keep {
			names = append(names, b.Name)
		}
	}
	return names
}
