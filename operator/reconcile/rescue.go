package reconcile

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/operator/build"
)

// rescueDue says whether a managed etcd that answers has lost the shard map, which the
// nodes know.
func (p *pass) rescueDue() bool {
	return managedEtcd(p.cluster) && p.etcd.err == nil && len(p.etcd.view.Members) > 0 && errors.Is(p.nodes.viewErr, shardmap.ErrRolledBack)
}

// rescue makes the Job that puts the shard map back, once all nodes can be asked. The Job
// looks again: it writes only over what is older than the nodes have seen.
func (p *pass) rescue(ctx context.Context) error {
	if !p.rescueDue() || p.readyNodes() < p.nodes.replicas {
		return nil
	}
	job := build.RescueJob(p.cluster, p.facts())
	present := &batchv1.Job{}
	if found, err := p.get(ctx, p.Reader, job.Name, present); err != nil || found {
		return err // it runs, or Kubernetes deletes it soon
	}
	if err := p.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	p.event(corev1.EventTypeWarning, reasonStoreLost, "etcd has lost the shard map; Job %s builds it anew from what the nodes know", job.Name)
	return nil
}

// rescueText says what is done about a shard map that is lost.
func (p *pass) rescueText() string {
	job := build.Name(p.cluster, build.ComponentRescue)
	switch {
	case !p.rescueDue():
		return "run `tickmesh rescue-map` in the cluster"
	case p.readyNodes() < p.nodes.replicas:
		return fmt.Sprintf("Job %s builds it anew when all %d nodes are ready, %d are; without those that are lost for good a person has to run `tickmesh rescue-map --allow-missing`",
			job, p.nodes.replicas, p.readyNodes())
	}
	return fmt.Sprintf("Job %s builds it anew from what the nodes know", job)
}
