package reconcile

import (
	"cmp"
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Backup makes one pass over a backup: it looks at its Jobs, decides, writes the status,
// and then does what was decided.
func Backup(ctx context.Context, s *Scope, b *v1alpha1.TickMeshBackup) (Result, error) {
	j := &jobs{s, b}
	cluster, state, err := j.cluster(ctx, b.Spec.ClusterRef.Name)
	if err != nil {
		return Result{}, err
	}
	if excluded, err := s.excluded(ctx, cluster); err != nil || excluded {
		return Result{After: intervalIdle}, err
	}
	facts := &backup.BackupFacts{Now: s.Now(), Cluster: state, Held: controllerutil.ContainsFinalizer(b, backup.Finalizer)}
	made := [...]*batchv1.Job{build.BackupJob(cluster, s.Defaults, b), build.VerifyJob(cluster, s.Defaults, b), build.DeleteJob(cluster, s.Defaults, b)}
	var there [len(made)]*batchv1.Job
	for i, seen := range []*backup.Job{&facts.Backup, &facts.Verify, &facts.Delete} {
		if there[i], *seen, err = j.look(ctx, made[i]); err != nil {
			return Result{}, err
		}
	}
	before := b.DeepCopy()
	d := backup.PlanBackup(b, facts)
	if err := j.writeStatus(ctx, before, b, equality.Semantic.DeepEqual(before.Status, b.Status)); err != nil {
		return Result{}, err
	}
	j.tell(d.Event)
	switch d.Action {
	case backup.ActionHold:
		err = j.hold(ctx, true)
	case backup.ActionBackup:
		err = j.create(ctx, made[0])
	case backup.ActionVerify:
		err = j.create(ctx, made[1])
	case backup.ActionDelete:
		if err = j.create(ctx, made[2]); apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = j.hold(ctx, false) // no Job can be made any more, and the object must not stay
		}
	case backup.ActionStop:
		err = j.remove(ctx, there[0], there[1])
	case backup.ActionRetryDelete:
		err = j.remove(ctx, there[2])
	case backup.ActionRelease:
		err = j.hold(ctx, false)
	case backup.ActionDeleteObject:
		err = expire(ctx, s, b)
	case backup.ActionNone, backup.ActionRestore, backup.ActionCompare:
	}
	return Result{After: d.After}, err
}

// expire deletes a backup with its data: the object says first that they go with it.
func expire(ctx context.Context, s *Scope, b *v1alpha1.TickMeshBackup) error {
	marked := b.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, v1alpha1.AnnotationExpired, "true")
	if err := s.Client.Patch(ctx, marked, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(s.Client.Delete(ctx, marked, client.Preconditions{UID: &b.UID}))
}

// Restore makes one pass over a restore.
func Restore(ctx context.Context, s *Scope, r *v1alpha1.TickMeshRestore) (Result, error) {
	if r.DeletionTimestamp != nil {
		return Result{}, nil // Kubernetes deletes its Jobs
	}
	j := &jobs{s, r}
	cluster, state, err := j.cluster(ctx, r.Spec.ClusterRef.Name)
	if err != nil {
		return Result{}, err
	}
	if excluded, err := s.excluded(ctx, cluster); err != nil || excluded {
		return Result{After: intervalIdle}, err
	}
	facts := &backup.RestoreFacts{Now: s.Now(), Cluster: state}
	place, err := j.source(ctx, r, facts)
	if err != nil {
		return Result{}, err
	}
	if place == nil && !backup.Ended(&r.Status.JobStatus) {
		place = &build.Place{Target: v1alpha1.BackupTarget{Volume: &v1alpha1.VolumeTarget{}}} // for the names of Jobs only
	}
	if place == nil {
		return Result{}, nil
	}
	restore, compare := build.RestoreJob(cluster, s.Defaults, r, *place), build.CompareJob(cluster, s.Defaults, r, *place)
	if _, facts.Restore, err = j.look(ctx, restore); err != nil {
		return Result{}, err
	}
	if _, facts.Compare, err = j.look(ctx, compare); err != nil {
		return Result{}, err
	}
	before := r.DeepCopy()
	d := backup.PlanRestore(r, facts)
	if err := j.writeStatus(ctx, before, r, equality.Semantic.DeepEqual(before.Status, r.Status)); err != nil {
		return Result{}, err
	}
	j.tell(d.Event)
	switch d.Action {
	case backup.ActionRestore:
		err = j.create(ctx, restore)
	case backup.ActionCompare:
		err = j.create(ctx, compare)
	default:
	}
	return Result{After: d.After}, err
}

// source returns where the backup is that a restore names; nil: it is not known.
func (j *jobs) source(ctx context.Context, r *v1alpha1.TickMeshRestore, f *backup.RestoreFacts) (*build.Place, error) {
	source := &r.Spec.Source
	if source.Target != nil {
		return &build.Place{
			Target: *source.Target, Position: source.Position,
			IdentitySecret: source.IdentitySecretName, VerifySecret: source.VerifySecretName,
		}, nil
	}
	b := &v1alpha1.TickMeshBackup{}
	err := j.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: source.BackupName}, b)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for TickMeshBackup %s: %w", source.BackupName, err)
	}
	f.Source = b
	place := build.PlaceOf(b)
	place.IdentitySecret = cmp.Or(source.IdentitySecretName, place.IdentitySecret)
	place.VerifySecret = cmp.Or(source.VerifySecretName, place.VerifySecret)
	return &place, nil
}
