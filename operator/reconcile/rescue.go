package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// nodesToAsk gives the pods of nodes that are ready, and the nodes that are not though they
// held shards when that was known last.
func (p *pass) nodesToAsk() (ready, missing []string) {
	isThere := map[string]bool{}
	for _, ordinal := range slices.Sorted(maps.Keys(p.seen.nodePods)) {
		if pod := p.seen.nodePods[ordinal]; isReady(pod) && pod.DeletionTimestamp == nil {
			ready, isThere[pod.Name] = append(ready, pod.Name), true
		}
	}
	for i := range p.cluster.Status.NodeStatuses {
		if node := &p.cluster.Status.NodeStatuses[i]; node.Shards > 0 && !isThere[node.Name] {
			missing = append(missing, node.Name)
		}
	}
	return ready, missing
}

// rescue makes the Job that puts the shard map back, once all nodes with shards can be
// asked. The Job looks again: it writes only over what is older than the nodes have seen.
func (p *pass) rescue(ctx context.Context) error {
	if !p.rescueDue() {
		return nil
	}
	ready, missing := p.nodesToAsk()
	if len(ready) == 0 || len(missing) > 0 {
		return nil // the condition says so
	}
	job := build.RescueJob(p.cluster, p.facts(), ready)
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
	if !p.rescueDue() {
		return "run `tickmesh rescue-map` in the cluster"
	}
	job := build.Name(p.cluster, build.ComponentRescue)
	if _, missing := p.nodesToAsk(); len(missing) > 0 {
		return fmt.Sprintf("Job %s builds it anew when all nodes with shards are ready, and %s is not; if that is lost for good, run `tickmesh rescue-map --write --allow-missing` in the cluster",
			job, strings.Join(missing, ", "))
	}
	return fmt.Sprintf("Job %s builds it anew from what the nodes know", job)
}
