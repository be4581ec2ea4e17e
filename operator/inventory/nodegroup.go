package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
)

// NodeGroup is what Kubernetes has of a group of nodes.
type NodeGroup struct {
	Name   string              // empty: that of spec.nodes
	Set    *appsv1.StatefulSet // nil: there is none
	Pods   map[int]*corev1.Pod // by ordinal
	Claims map[int]*corev1.PersistentVolumeClaim
	// Leaves reports that the spec does not have it any more.
	Leaves bool
}

// NewNodeGroup returns a group that Kubernetes has nothing of.
func NewNodeGroup(name string, leaves bool) *NodeGroup {
	return &NodeGroup{Name: name, Leaves: leaves, Pods: map[int]*corev1.Pod{}, Claims: map[int]*corev1.PersistentVolumeClaim{}}
}

// NodeGroup returns a group; nil: there is nothing of it.
func (v *Inventory) NodeGroup(name string) *NodeGroup {
	for _, g := range v.NodeGroups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// NodePods returns the pods of nodes, by groups and ordinals.
func (v *Inventory) NodePods() (pods []*corev1.Pod) {
	for _, g := range v.NodeGroups {
		for _, ordinal := range slices.Sorted(maps.Keys(g.Pods)) {
			pods = append(pods, g.Pods[ordinal])
		}
	}
	return pods
}

// Node returns the pod and the claim of a node; nil: there is none.
func (v *Inventory) Node(name string) (pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	for _, g := range v.NodeGroups {
		for _, is := range g.Pods {
			if is.Name == name {
				pod = is
			}
		}
		for _, is := range g.Claims {
			if is.Name == build.ClaimName(name) {
				claim = is
			}
		}
	}
	return pod, claim
}

// group returns a group that is being read.
func (r *reading) group(name string) *NodeGroup {
	g := r.NodeGroup(name)
	if g == nil {
		g = NewNodeGroup(name, !slices.Contains(r.cluster.Spec.NodeGroupNames(), name))
		r.NodeGroups = append(r.NodeGroups, g)
	}
	return g
}

// readNodes reads the StatefulSets, pods and claims of nodes. Groups that the spec does not have any
// more are found by what there is of them.
func (r *reading) readNodes(ctx context.Context) error {
	for _, name := range r.cluster.Spec.NodeGroupNames() {
		r.group(name)
	}
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, r.selects(build.ComponentNode)...); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		if group, ordinal, ok := build.NodeOf(r.cluster, pods.Items[i].Name); ok {
			r.group(group).Pods[ordinal] = &pods.Items[i]
		}
	}
	if err := r.readNodeClaims(ctx); err != nil {
		return err
	}
	var sets appsv1.StatefulSetList
	if err := r.cached.List(ctx, &sets, append(r.selects(build.ComponentNode), client.HasLabels{build.LabelNodeGroup})...); err != nil {
		return fmt.Errorf("list StatefulSets: %w", err)
	}
	for i := range sets.Items {
		if name := sets.Items[i].Labels[build.LabelNodeGroup]; sets.Items[i].Name == build.NodeSetName(r.cluster, name) {
			r.group(name)
		}
	}
	for _, g := range r.NodeGroups {
		var err error
		if g.Set, err = r.statefulSet(ctx, build.NodeSetName(r.cluster, g.Name)); err != nil {
			return err
		}
		if err := r.findClaims(ctx, g); err != nil {
			return err
		}
	}
	first := len(r.cluster.Spec.NodeGroupNames())
	slices.SortFunc(r.NodeGroups[first:], func(a, b *NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (r *reading) readNodeClaims(ctx context.Context) error {
	var list corev1.PersistentVolumeClaimList
	if err := r.live.List(ctx, &list, r.selects(build.ComponentNode)...); err != nil {
		return fmt.Errorf("list volume claims: %w", err)
	}
	for i := range list.Items {
		if group, ordinal, ok := build.NodeOf(r.cluster, build.PodOfClaim(list.Items[i].Name)); ok {
			r.group(group).Claims[ordinal] = &list.Items[i]
		}
	}
	return nil
}

// findClaims reads the claims of a group that somebody may have taken the labels of: their data is
// still there.
func (r *reading) findClaims(ctx context.Context, g *NodeGroup) error {
	for ordinal := range Replicas(g.Set) {
		if g.Claims[ordinal] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		found, err := r.find(ctx, r.live, build.ClaimName(build.NodeName(r.cluster, g.Name, ordinal)), claim)
		if err != nil {
			return fmt.Errorf("look at a volume claim: %w", err)
		}
		if found {
			g.Claims[ordinal] = claim
		}
	}
	return nil
}
