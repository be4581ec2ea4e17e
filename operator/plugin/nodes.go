package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// errNode marks a name that is no node's.
var errNode = errors.New("no such node")

// splitNode takes the name of a node apart: demo-node-2 is number 2 of demo.
func splitNode(name string) (cluster string, ordinal int, ok bool) {
	at := strings.LastIndex(name, "-"+build.ComponentNode+"-")
	if at <= 0 {
		return "", 0, false
	}
	digits := name[at+len("-"+build.ComponentNode+"-"):]
	ordinal, err := strconv.Atoi(digits)
	return name[:at], ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}

// clusterOf returns the cluster that all of the nodes are of.
func clusterOf(nodes []string) (string, error) {
	cluster := ""
	for _, node := range nodes {
		of, _, ok := splitNode(node)
		switch {
		case !ok:
			return "", fmt.Errorf("%w: %s; a node has the name of its pod, such as demo-node-1", errNode, node)
		case cluster != "" && of != cluster:
			return "", fmt.Errorf("%s and %s are of different clusters: one after the other, please", nodes[0], node)
		}
		cluster = of
	}
	return cluster, nil
}

// scaled returns what a cluster with so many nodes would differ in from the one that is.
func scaled(c *v1alpha1.TickMeshCluster, s *tickmesh.Status, replicas int32) tickmesh.Change {
	var change tickmesh.Change
	known := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		known[n.Node] = n.Alive
		cluster, ordinal, ok := splitNode(n.Node)
		switch {
		case !ok || cluster != c.Name:
		case ordinal >= int(replicas):
			change.Drained = append(change.Drained, n.Node)
		case n.Desired != desiredActive && !slices.Contains(c.Spec.Nodes.Drained, n.Node):
			change.Undrained = append(change.Undrained, n.Node)
		}
	}
	for _, node := range build.PodNames(c, build.ComponentNode, replicas) {
		if !known[node] {
			change.Added = append(change.Added, tickmesh.NewNode{Node: node, CapacityBytes: uint64(max(0, c.Spec.Nodes.Storage.Size.Value()))})
		}
	}
	return change
}

// desiredActive is what is desired of a node that takes part.
const desiredActive = "active"
