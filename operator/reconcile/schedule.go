package reconcile

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
)

// Schedule makes one pass over a schedule: it makes the backup that is due, if none runs,
// and deletes those that are not kept. The backup is made before the status says so, and
// its name follows from its time, so it is made once wherever a pass ends.
func Schedule(ctx context.Context, s *Scope, schedule *v1alpha1.TickMeshBackupSchedule) (Result, error) {
	if schedule.DeletionTimestamp != nil {
		return Result{}, nil
	}
	j := &jobs{s, schedule}
	cluster, state, err := j.cluster(ctx, schedule.Spec.Template.Spec.ClusterRef.Name)
	if err != nil {
		return Result{}, err
	}
	if excluded, err := s.excluded(ctx, cluster); err != nil || excluded {
		return Result{After: intervalIdle}, err
	}
	var list v1alpha1.TickMeshBackupList
	labels := client.MatchingLabels{v1alpha1.LabelSchedule: schedule.Name}
	// Of now: a backup that the cache does not show yet would not count as one that runs.
	if err := s.Reader.List(ctx, &list, client.InNamespace(schedule.Namespace), labels); err != nil {
		return Result{}, fmt.Errorf("list backups: %w", err)
	}
	before := schedule.DeepCopy()
	d := backup.PlanSchedule(schedule, list.Items, state, s.Now())
	if d.Create != nil {
		if err := s.Client.Create(ctx, d.Create); err != nil && !apierrors.IsAlreadyExists(err) {
			return Result{}, fmt.Errorf("make TickMeshBackup %s: %w", d.Create.Name, err)
		}
		j.tell(&backup.Event{Kind: corev1.EventTypeNormal, Reason: backup.ReasonScheduled, Note: "backup " + d.Create.Name + " is made"})
	}
	for _, name := range d.Delete {
		i := slices.IndexFunc(list.Items, func(b v1alpha1.TickMeshBackup) bool { return b.Name == name })
		if err := expire(ctx, s, &list.Items[i]); err != nil {
			return Result{}, fmt.Errorf("delete TickMeshBackup %s: %w", name, err)
		}
		j.tell(&backup.Event{Kind: corev1.EventTypeNormal, Reason: backup.ReasonPruned, Note: "backup " + name + " is not kept any more, and deleted with its data"})
	}
	err = j.writeStatus(ctx, before, schedule, equality.Semantic.DeepEqual(before.Status, schedule.Status))
	return Result{After: d.After}, err
}
