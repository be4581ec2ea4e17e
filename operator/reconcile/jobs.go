package reconcile

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
	"github.com/tickmesh/tickmesh/operator/build"
)

// labelJobName is what Kubernetes puts on the pods of a Job.
const labelJobName = "batch.kubernetes.io/job-name"

// jobs is what functions about Jobs of one owner work with.
type jobs struct {
	*Scope
	owner client.Object
}

// look returns the Job that is there under the name of one that could be made, and tells of
// it. A Job of another owner, such as one of this name that was deleted, counts as one
// that runs: it goes soon.
func (j *jobs) look(ctx context.Context, wanted *batchv1.Job) (*batchv1.Job, backup.Job, error) {
	job := &batchv1.Job{}
	err := j.Client.Get(ctx, client.ObjectKeyFromObject(wanted), job)
	switch {
	case apierrors.IsNotFound(err):
		return nil, backup.Job{}, nil
	case err != nil:
		return nil, backup.Job{}, fmt.Errorf("look for Job %s: %w", wanted.Name, err)
	case job.Labels[build.LabelOwner] != string(j.owner.GetUID()):
		return nil, backup.Job{State: backup.JobRunning}, nil
	}
	var pods corev1.PodList
	// Of now: what the last pod said is taken once, when the Job has ended.
	if err := j.Reader.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{labelJobName: job.Name}); err != nil {
		return nil, backup.Job{}, fmt.Errorf("list the pods of Job %s: %w", job.Name, err)
	}
	return job, backup.Observe(job, pods.Items), nil
}

// create makes a Job, unless it is there.
func (j *jobs) create(ctx context.Context, job *batchv1.Job) error {
	if err := j.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Job %s: %w", job.Name, err)
	}
	return nil
}

// remove deletes Jobs, which are there until their pods are gone.
func (j *jobs) remove(ctx context.Context, list ...*batchv1.Job) error {
	for _, job := range list {
		if job == nil || job.DeletionTimestamp != nil {
			continue
		}
		err := j.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Job %s: %w", job.Name, err)
		}
	}
	return nil
}

// cluster returns the cluster of a backup or restore. When it is gone it returns one of that
// name, which is enough for Jobs that do not connect to it.
func (j *jobs) cluster(ctx context.Context, name string) (*v1alpha1.TickMeshCluster, backup.ClusterState, error) {
	c := &v1alpha1.TickMeshCluster{}
	err := j.Client.Get(ctx, client.ObjectKey{Namespace: j.owner.GetNamespace(), Name: name}, c)
	if apierrors.IsNotFound(err) {
		c = &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Namespace: j.owner.GetNamespace(), Name: name}}
		c.Spec.Nodes.Zones.TopologyKey = corev1.LabelTopologyZone
		return c, backup.ClusterState{}, nil
	}
	return c, backup.ClusterState{Exists: err == nil && c.DeletionTimestamp == nil, Paused: c.Spec.Paused, Rests: rests(c), UID: string(c.UID)}, err
}

// writeStatus writes what a pass has changed in a status.
func (j *jobs) writeStatus(ctx context.Context, before, after client.Object, same bool) error {
	if same {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := j.Client.Status().Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// hold adds or takes away the finalizer of a backup.
func (j *jobs) hold(ctx context.Context, wanted bool) error {
	changed, ok := j.owner.DeepCopyObject().(client.Object)
	if !ok || controllerutil.ContainsFinalizer(changed, backup.Finalizer) == wanted {
		return nil
	}
	if wanted {
		controllerutil.AddFinalizer(changed, backup.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, backup.Finalizer)
	}
	patch := client.MergeFromWithOptions(j.owner, client.MergeFromWithOptimisticLock{})
	if err := j.Client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizer: %w", err)
	}
	return nil
}

// tell describes something that happens to the owner.
func (j *jobs) tell(e *backup.Event) {
	if e != nil {
		j.Events.Eventf(j.owner, nil, e.Kind, e.Reason, "Reconcile", "%s", e.Note)
	}
}
