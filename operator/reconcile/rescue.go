package reconcile

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/report"
)

// rescue is who can be asked for a shard map that is lost.
type rescue struct {
	ready []string // nodes that are ready
	// Nodes that are not ready though they held shards when that was known last.
	missing []string // they may come back
	lost    []string // their data is gone for good
}

// rescueOf returns who can be asked now.
func rescueOf(c *v1alpha1.TickMeshCluster, seen *inventory.Inventory) (r rescue) {
	isThere := map[string]bool{}
	for _, pod := range seen.NodePods() {
		if inventory.IsReady(pod) && pod.DeletionTimestamp == nil {
			r.ready, isThere[pod.Name] = append(r.ready, pod.Name), true
		}
	}
	for i := range c.Status.NodeStatuses {
		node := &c.Status.NodeStatuses[i]
		_, _, ok := build.NodeOf(c, node.Name)
		switch pod, claim := seen.Node(node.Name); {
		case node.Shards == 0 || isThere[node.Name]:
		case ok && seen.IsDataGone(claim, pod):
			r.lost = append(r.lost, node.Name)
		default:
			r.missing = append(r.missing, node.Name)
		}
	}
	return r
}

// impossible reports why the shard map could not be built anew from what the nodes know;
// empty: it could.
func (r rescue) impossible() string {
	switch {
	case len(r.ready) == 0:
		return "no node is ready"
	case len(r.missing) > 0:
		return strings.Join(r.missing, ", ") + " is not ready, and may come back"
	}
	return ""
}

// text returns what is done about a shard map that is lost; due: by the operator.
func (r rescue) text(c *v1alpha1.TickMeshCluster, due bool) string {
	if !due {
		return "run `tickmesh rescue-map` in the cluster"
	}
	job := build.Name(c, build.ComponentRescue)
	if len(r.missing) > 0 {
		return fmt.Sprintf("Job %s builds it anew when all nodes with shards are ready, and %s is not; if that is lost for good, run `tickmesh rescue-map --write --allow-missing` in the cluster",
			job, strings.Join(r.missing, ", "))
	}
	return fmt.Sprintf("Job %s builds it anew from what the nodes know", job)
}

// rescueMap makes the Job that puts the shard map back, once all nodes with shards can be
// asked. The Job looks again: it writes only over what is older than the nodes have seen.
func (p *pass) rescueMap(ctx context.Context) error {
	if !p.etcd.hasLost(p.nodes.known.ViewErr) {
		return nil
	}
	asked := rescueOf(p.cluster, p.seen)
	if asked.impossible() != "" {
		return nil // the condition says so
	}
	job := build.RescueJob(p.cluster, p.facts(), asked.ready, asked.lost)
	present := &batchv1.Job{}
	if found, err := p.objects.FindLive(ctx, job.Name, present); err != nil || found {
		return err // it runs, or Kubernetes deletes it soon
	}
	if err := p.objects.Cached.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	p.tell(corev1.EventTypeWarning, report.ReasonStoreLost, "etcd has lost the shard map; Job %s builds it anew from what the nodes know", job.Name)
	return nil
}
