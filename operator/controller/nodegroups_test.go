package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// groups sets the groups of nodes beside those of spec.nodes.
func (w *world) groups(groups ...v1alpha1.NodeGroup) {
	w.t.Helper()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.NodeGroups = groups })
}

// nodeSets returns the replicas of the StatefulSets of nodes.
func (w *world) nodeSets() map[string]int {
	w.t.Helper()
	var list appsv1.StatefulSetList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: build.ComponentNode}))
	sets := map[string]int{}
	for i := range list.Items {
		sets[list.Items[i].Name] = int(*list.Items[i].Spec.Replicas)
	}
	return sets
}

// oneByOne checks that one node at most is down until something is so.
func (w *world) oneByOne(what string, is func() bool) {
	w.t.Helper()
	w.until(what, func() bool {
		if nodes := int(w.cluster().Spec.NodeCount()); len(w.processes) < nodes-1 {
			w.t.Fatalf("%d of %d nodes run", len(w.processes), nodes)
		}
		return is()
	})
}

// wholeUntil checks that no shard has fewer than two live copies until something is so.
func (w *world) wholeUntil(what string, is func() bool) {
	w.t.Helper()
	w.until(what, func() bool {
		if copies := w.copies(); copies < 2 {
			w.t.Fatalf("a shard has %d live copies", copies)
		}
		return is()
	})
}

// A cluster has groups of nodes, which come, change and go.
func TestNodeGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 7)
	w.create("{shards: 6, replication: 2, image: 'tickmesh:1', nodes: {count: 2, storage: {size: 20Gi}}, nodeGroups: [{name: arm, count: 1, " +
		"storage: {size: 2Gi}, resources: {limits: {memory: 512Mi}}, placement: {nodeSelector: {kubernetes.io/arch: arm64}}}]}")
	w.until("the cluster is made", w.complete)
	if is := w.nodeSets(); len(is) != 2 || is["demo-node"] != 2 || is["demo-node-arm"] != 1 {
		t.Fatalf("StatefulSets %v", is)
	}
	pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(t.Context(), w.key("demo-node-arm-0"), pod))
	w.must(w.api.Get(t.Context(), w.key("data-demo-node-arm-0"), claim))
	if pod.Spec.NodeSelector[corev1.LabelArchStable] != "arm64" || pod.Spec.Containers[0].Resources.Limits.Memory().String() != "512Mi" || pod.Labels[build.LabelNodeGroup] != "arm" {
		t.Errorf("pod %+v", pod)
	}
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" || claim.Labels[build.LabelNodeGroup] != "arm" {
		t.Errorf("claim %+v", claim)
	}
	if len(w.view().Map.MembersOn("demo-node-arm-0")) == 0 {
		t.Error("demo-node-arm-0 holds nothing")
	}
	c := w.cluster()
	if g := c.Status.NodeGroups; c.Status.WantedNodes != 3 || len(g) != 1 || g[0] != (v1alpha1.NodeGroupStatus{Name: "arm", WantedNodes: 1, Nodes: 1, ReadyNodes: 1}) {
		t.Errorf("status %+v", c.Status)
	}
	if n := c.Status.NodeStatuses; len(n) != 3 || n[0].Group != "" || n[2].Name != "demo-node-arm-0" || n[2].Group != "arm" {
		t.Errorf("nodes %+v", n)
	}

	arm := c.Spec.NodeGroups[0]
	arm.Count = 2
	w.groups(arm, v1alpha1.NodeGroup{Name: "big", Count: 2})
	w.wholeUntil("groups grow", w.complete)
	if is := w.nodeSets(); len(is) != 3 || is["demo-node"] != 2 || is["demo-node-arm"] != 2 || is["demo-node-big"] != 2 {
		t.Fatalf("StatefulSets %v", is)
	}
	if len(w.view().Map.MembersOn("demo-node-big-1")) == 0 {
		t.Error("demo-node-big-1 holds nothing")
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:2" })
	w.oneByOne("all nodes are upgraded", func() bool { return w.complete() && w.cluster().Status.Version == "2" })

	w.groups(arm)
	w.wholeUntil("a group is gone", func() bool { return w.complete() && len(w.nodeSets()) == 2 })
	if claims := w.claims(); len(claims) != 6 || !slices.Contains(claims, "data-demo-node-big-1") {
		t.Errorf("claims are to be kept: %v", claims)
	}
	if g := w.cluster().Status.NodeGroups; len(g) != 1 {
		t.Errorf("status %+v", g)
	}
	w.groups(arm, v1alpha1.NodeGroup{Name: "big", Count: 1})
	w.wholeUntil("it comes back with its volume", func() bool { return w.complete() && len(w.view().Map.MembersOn("demo-node-big-0")) > 0 })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.NodeGroups, s.Nodes.Count, s.Nodes.Storage.DeletionPolicy = nil, 3, v1alpha1.DeletionPolicyDelete
	})
	w.wholeUntil("all groups are gone, with their volumes", func() bool {
		return w.complete() && len(w.nodeSets()) == 1 && len(w.claims()) == 3 && len(w.view().Desired) == 0
	})
}

// A group whose nodes cannot be done without stays, is said to, and what undoes it.
func TestNodeGroupThatCannotGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, nodes: {count: 2}, nodeGroups: [{name: arm, count: 1}]}")
	w.until("the cluster is made", w.complete)
	w.groups()
	w.until("it is refused", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "ScaleRefused" })
	if c := w.condition(v1alpha1.ConditionProgressing); !strings.Contains(c.Message, "demo-node-arm-0") || !strings.Contains(c.Message, "put arm with a count of 1 back into spec.nodeGroups") {
		t.Errorf("%+v", c)
	}
	if g := w.cluster().Status.NodeGroups; len(g) != 1 || g[0].WantedNodes != 0 || g[0].ReadyNodes != 1 {
		t.Errorf("status %+v", g)
	}
	w.count(3)
	w.wholeUntil("another node takes its place", func() bool { return w.complete() && len(w.nodeSets()) == 1 })
}

// A group does not begin with a version that is refused.
func TestNodeGroupOfRefusedVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, image: 'tickmesh:1.4.0', nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Image, s.NodeGroups = "tickmesh:1.2.0", []v1alpha1.NodeGroup{{Name: "arm", Count: 1}}
	})
	for range 10 {
		w.step()
		if is := w.nodeSets(); len(is) != 1 {
			t.Fatalf("StatefulSets %v", is)
		}
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:1.4.0" })
	w.until("it begins", func() bool { return w.complete() && w.nodeSets()["demo-node-arm"] == 1 })
}

// Groups sleep and wake with their cluster, also one that is being emptied.
func TestNodeGroupsHibernate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, nodeGroups: [{name: arm, count: 2}]}")
	w.until("the cluster is made", w.complete)
	w.groups()
	w.until("a group is being emptied", func() bool { return w.cluster().Status.ShardsMoving > 0 })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = true })
	w.until("it sleeps", func() bool { return w.condition(v1alpha1.ConditionHibernated).Status == "True" })
	if is, pods := w.nodeSets(), w.uids(build.ComponentNode); len(pods) > 0 || is["demo-node"] != 0 || is["demo-node-arm"] != 0 || len(is) != 2 {
		t.Fatalf("StatefulSets %v, pods %v", is, pods)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = false })
	w.until("it wakes, and the group goes", func() bool { return w.complete() && len(w.nodeSets()) == 1 })
}

// Volumes of one group are replaced by such of another storage class, and grow; those of others stay.
func TestStorageOfNodeGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create("{shards: 6, replication: 2, nodes: {count: 2}, nodeGroups: [{name: arm, count: 2}]}")
	w.until("the cluster is made", w.complete)
	before := w.nodeClaims()
	fast, size := w.namespace+"-fast", resource.MustParse("11Gi")
	w.makeClass(fast)
	w.groups(v1alpha1.NodeGroup{Name: "arm", Count: 2, Storage: &v1alpha1.NodeGroupStorage{StorageClassName: &fast, Size: &size}})
	w.wholeUntil("volumes are replaced", func() bool {
		claims := w.nodeClaims()
		for ordinal := range 2 {
			is := claims[fmt.Sprintf("data-demo-node-arm-%d", ordinal)]
			if asked := is.Spec.Resources.Requests[corev1.ResourceStorage]; is.Spec.StorageClassName == nil || *is.Spec.StorageClassName != fast || asked.Cmp(size) != 0 {
				return false
			}
		}
		return w.complete()
	})
	for ordinal := range 2 {
		name := fmt.Sprintf("data-demo-node-%d", ordinal)
		if is := w.nodeClaims()[name]; is.UID != before[name].UID {
			t.Errorf("%s was replaced", name)
		}
	}
}
