package reconcile

import (
	"fmt"
	"strings"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
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
