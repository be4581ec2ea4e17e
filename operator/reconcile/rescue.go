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

// rescueDue reports whether a managed etcd that answers has lost the shard map, which the
// nodes know.
func (p *pass) rescueDue() bool {
	return managedEtcd(p.cluster) && p.etcd.err == nil && len(p.etcd.view.Members) > 0 && errors.Is(p.nodes.viewErr, shardmap.ErrRolledBack)
}

// nodesToAsk returns the pods of nodes that are ready, and those that are not though they held
// shards when that was known last: those that may come back, and those whose data is gone
// for good.
func (p *pass) nodesToAsk() (ready, missing, lost []string) {
	isThere := map[string]bool{}
	for _, ordinal := range slices.Sorted(maps.Keys(p.seen.nodePods)) {
		if pod := p.seen.nodePods[ordinal]; isReady(pod) && pod.DeletionTimestamp == nil {
			ready, isThere[pod.Name] = append(ready, pod.Name), true
		}
	}
	for i := range p.cluster.Status.NodeStatuses {
		node := &p.cluster.Status.NodeStatuses[i]
		switch ordinal, ok := ordinalOf(node.Name, build.Name(p.cluster, build.ComponentNode)); {
		case node.Shards == 0 || isThere[node.Name]:
		case ok && p.dataGone(p.seen.nodeClaims[ordinal], p.seen.nodePods[ordinal]):
			lost = append(lost, node.Name)
		default:
			missing = append(missing, node.Name)
		}
	}
	return ready, missing, lost
}

// dataGone reports whether the data of a claim does not come back, as nobody can mount it
// again.
func (p *pass) dataGone(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	if claim == nil || p.seen.lost[claim.Name] {
		return true
	}
	if name := p.seen.volumeMachines[claim.Name]; name != "" {
		machine := p.seen.machines[name]
		if machine == nil || isOutOfService(machine) {
			return true
		}
	}
	return claim.DeletionTimestamp != nil && (pod == nil || pod.Spec.NodeName == "")
}

// unrescuable reports why the shard map could not be built anew from what the nodes know;
// empty: it could.
func (p *pass) unrescuable() string {
	switch ready, missing, _ := p.nodesToAsk(); {
	case len(ready) == 0:
		return "no node is ready"
	case len(missing) > 0:
		return strings.Join(missing, ", ") + " is not ready, and may come back"
	}
	return ""
}

// rescue makes the Job that puts the shard map back, once all nodes with shards can be
// asked. The Job looks again: it writes only over what is older than the nodes have seen.
func (p *pass) rescue(ctx context.Context) error {
	if !p.rescueDue() {
		return nil
	}
	ready, missing, lost := p.nodesToAsk()
	if len(ready) == 0 || len(missing) > 0 {
		return nil // the condition says so
	}
	job := build.RescueJob(p.cluster, p.facts(), ready, lost)
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

// rescueText returns what is done about a shard map that is lost.
func (p *pass) rescueText() string {
	if !p.rescueDue() {
		return "run `tickmesh rescue-map` in the cluster"
	}
	job := build.Name(p.cluster, build.ComponentRescue)
	if _, missing, _ := p.nodesToAsk(); len(missing) > 0 {
		return fmt.Sprintf("Job %s builds it anew when all nodes with shards are ready, and %s is not; if that is lost for good, run `tickmesh rescue-map --write --allow-missing` in the cluster",
			job, strings.Join(missing, ", "))
	}
	return fmt.Sprintf("Job %s builds it anew from what the nodes know", job)
}
