package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// errNode marks a name that is no node's.
var errNode = errors.New("no such node")

// splitNode takes the name of a node apart: demo-node-2 is number 2 of demo, and demo-node-arm-0 number 0 of
// its group arm. No group has the word node in its name.
func splitNode(name string) (cluster, group string, ordinal int, ok bool) {
	at := strings.LastIndex(name, "-"+build.ComponentNode+"-")
	if at <= 0 {
		return "", "", 0, false
	}
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: name[:at]}}
	group, ordinal, ok = build.NodeOf(c, name)
	return c.Name, group, ordinal, ok
}

// clusterOf returns the cluster that all of the nodes are of.
func clusterOf(nodes []string) (string, error) {
	cluster := ""
	for _, node := range nodes {
		of, _, _, ok := splitNode(node)
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

// errGroup marks a name that is no group's.
var errGroup = errors.New("no such group of nodes")

// resized returns a cluster whose spec asks for so many nodes of a group; that of spec.nodes has an empty
// name. A group that there is not may be asked for as one without settings of its own.
func resized(c *v1alpha1.TickMeshCluster, group string, count int32) (*v1alpha1.TickMeshCluster, error) {
	c = c.DeepCopy()
	if group == "" {
		c.Spec.Nodes.Count = count
		return c, nil
	}
	for i := range c.Spec.NodeGroups {
		if g := &c.Spec.NodeGroups[i]; g.Name == group {
			g.Count = count
			return c, nil
		}
	}
	if got, _, ok := build.NodeOf(c, build.NodeName(c, group, 0)); !ok || got != group {
		return nil, fmt.Errorf("%w: %s", errGroup, group)
	}
	c.Spec.NodeGroups = append(c.Spec.NodeGroups, v1alpha1.NodeGroup{Name: group, Count: count})
	return c, nil
}

// scaled returns what a cluster with the nodes that its spec asks for would differ in from the one that is.
func scaled(c *v1alpha1.TickMeshCluster, s *tickmesh.Status) tickmesh.Change {
	var change tickmesh.Change
	known := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		known[n.Node] = n.Alive
		group, ordinal, ok := build.NodeOf(c, n.Node)
		asked, _ := c.Spec.NodesOf(group)
		switch {
		case !ok:
		case ordinal >= int(asked.Count):
			change.Drained = append(change.Drained, n.Node)
		case n.Desired != desiredActive && !slices.Contains(c.Spec.Nodes.Drained, n.Node):
			change.Undrained = append(change.Undrained, n.Node)
		}
	}
	for _, node := range build.NodeNames(c) {
		if !known[node] {
			group, _, _ := build.NodeOf(c, node)
			asked, _ := c.Spec.NodesOf(group)
			change.Added = append(change.Added, tickmesh.NewNode{Node: node, CapacityBytes: uint64(max(0, asked.Storage.Size.Value()))})
		}
	}
	return change
}

// desiredActive is what is desired of a node that takes part.
const desiredActive = "active"
