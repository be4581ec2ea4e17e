package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/hibernation"
)

// errStopped is why nobody of a cluster that sleeps is asked.
var errStopped = errors.New("spec.hibernated is set, or was: it does not run yet")

// hibernate decides which components are to have no pods.
func (p *pass) hibernate(ctx context.Context) error {
	f := hibernation.Facts{Wanted: p.cluster.Spec.Hibernated}
	if since := p.cluster.Status.WakingSince; since != nil {
		f.WakingFor = p.now.Sub(since.Time)
	}
	serving := map[string]bool{
		build.ComponentEtcd: p.etcd.err == nil,
		build.ComponentNode: 2*p.seen.ReadyNodes() >= p.nodes.known.Replicas(),
	}
	for _, component := range build.Restartable(p.cluster) {
		c := hibernation.Component{
			Name: component, Exists: len(p.seen.Workloads(component)) > 0, Stopped: p.seen.IsStopped(component),
			Pods: p.seen.Pods(component), Serving: serving[component],
		}
		switch component {
		case build.ComponentRouter:
			c.Serving = p.seen.Router != nil && p.seen.Router.Status.ReadyReplicas > 0
		case build.ComponentEnvoy:
			c.Serving = p.seen.Envoy != nil && p.seen.Envoy.Status.ReadyReplicas > 0
		}
		f.Components = append(f.Components, c)
	}
	begun := slices.ContainsFunc(f.Components, func(c hibernation.Component) bool { return c.Stopped })
	if p.cluster.Spec.Paused {
		f.Wanted = begun // what is there stays
	}
	var err error
	if f.Wanted && !begun {
		if f.Busy, err = p.runningJobs(ctx); err != nil {
			f.Busy = "whether a backup runs is not known"
		}
	}
	p.hibernation = hibernation.Decide(f)
	return err
}

// runningJobs returns a backup or restore of the cluster that runs; empty: none does. One that is
// being deleted needs the cluster no more, however long its data take to go.
func (p *pass) runningJobs(ctx context.Context) (string, error) {
	var backups v1alpha1.TickMeshBackupList
	var restores v1alpha1.TickMeshRestoreList
	within := client.InNamespace(p.cluster.Namespace)
	if err := errors.Join(p.Client.List(ctx, &backups, within), p.Client.List(ctx, &restores, within)); err != nil {
		return "", fmt.Errorf("list backups and restores: %w", err)
	}
	for i := range backups.Items {
		if b := &backups.Items[i]; b.Spec.ClusterRef.Name == p.cluster.Name && b.DeletionTimestamp == nil && backup.Runs(&b.Status.JobStatus) {
			return "backup " + b.Name + " runs", nil
		}
	}
	for i := range restores.Items {
		if r := &restores.Items[i]; r.Spec.ClusterRef.Name == p.cluster.Name && r.DeletionTimestamp == nil && backup.Runs(&r.Status.JobStatus) {
			return "restore " + r.Name + " runs", nil
		}
	}
	return "", nil
}

// rests reports whether a cluster sleeps, falls asleep or wakes, as its status says.
func rests(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.Hibernated || c.Status.WakingSince != nil || meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionHibernated)
}

// wakingSince returns since when a cluster has been waking; zero: it is not.
func (p *pass) wakingSince() time.Time {
	switch since := p.cluster.Status.WakingSince; {
	case p.hibernation.Stage != hibernation.Waking:
		return time.Time{}
	case since != nil:
		return since.Time
	}
	return p.now
}
