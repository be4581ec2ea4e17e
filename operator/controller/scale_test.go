package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// small is a cluster that tests are quick with.
const small = "{shards: 6, replication: 2, nodes: {count: 3}}"

func (w *world) count(n int32) {
	w.t.Helper()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = n })
}

func (w *world) view() shardmap.View {
	w.t.Helper()
	view, err := w.placement.Load(w.t.Context())
	w.must(err)
	return view
}

// claims returns the names of the nodes' claims.
func (w *world) claims() (names []string) {
	w.t.Helper()
	var list corev1.PersistentVolumeClaimList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(w.namespace)))
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "data-demo-node") {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// events returns those that have a reason, and forgets all.
func (w *world) events(reason string) (found []string) {
	for {
		select {
		case event := <-w.recorded.Events:
			if strings.Contains(event, " "+reason+" ") {
				found = append(found, event)
			}
		default:
			return found
		}
	}
}

// A cluster comes up, grows, and shrinks.
func TestScale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	w.create(small)
	w.until("the cluster is made", w.complete)
	c := w.cluster()
	if c.Status.Shards != 6 || c.Status.Phase != v1alpha1.PhaseRunning || c.Status.Version != "test" || len(c.Status.Zones) != 3 {
		t.Fatalf("status %+v", c.Status)
	}
	if c.Status.Etcd.ReadyMembers != 3 || c.Status.Certificates.NotAfter.Before(&metav1.Time{Time: w.now}) {
		t.Fatalf("status %+v %+v", c.Status.Etcd, c.Status.Certificates)
	}
	if manager := w.view().Manager; manager != "TickMeshCluster/"+w.namespace+"/demo" {
		t.Fatalf("managed by %q", manager)
	}

	w.count(5)
	w.until("copies move", func() bool {
		c := w.condition(v1alpha1.ConditionRebalancing)
		return c.Status == metav1.ConditionTrue && c.Reason == "Moving" && w.cluster().Status.ShardsMoving > 0
	})
	w.until("it has five nodes", w.complete)
	if c := w.condition(v1alpha1.ConditionRebalancing); c.Reason != "Balanced" {
		t.Fatalf("%+v", c)
	}
	for ordinal := range 5 {
		if len(w.view().Map.MembersOn(fmt.Sprintf("demo-node-%d", ordinal))) == 0 {
			t.Fatalf("node %d holds nothing", ordinal)
		}
	}

	w.count(3)
	w.until("it has three nodes", w.complete)
	if claims := w.claims(); len(claims) != 5 {
		t.Fatalf("claims are to be kept: %v", claims)
	}
	if len(w.events("ScalingIn")) == 0 {
		t.Fatal("no event tells of it")
	}

	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	w.until("the claims are deleted", func() bool { return len(w.claims()) == 3 && len(w.view().Desired) == 0 })
	w.count(4)
	w.until("a node comes back with a new volume", w.complete)
}

// Whoever changes their mind gets what they asked for last, at any moment of a drain.
func TestChangeOfMind(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 3, 6, 10, 20} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 5)
			w.create(small)
			w.until("the cluster is made", w.complete)
			w.count(5)
			w.until("it has five nodes", w.complete)
			w.count(3)
			for range after {
				w.step()
			}
			w.count(5)
			w.until("it has five nodes again", w.complete)
			for node, desired := range w.view().Desired {
				if desired != shardmap.Active {
					t.Errorf("%s is %s", node, desired)
				}
			}
		})
	}
}

// A scale-in that would cost copies is refused, and told of once; nothing is drained.
func TestScaleRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.count(2)
	w.until("it is refused", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "ScaleRefused" })
	for range 10 {
		w.step()
	}
	if c := w.condition(v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "demo-node-2") || !strings.Contains(c.Message, "set spec.nodes.count back to 3") {
		t.Fatalf("%+v", c)
	}
	if told := w.events("ScaleRefused"); len(told) != 1 {
		t.Fatalf("told %d times: %q", len(told), told)
	}
	if desired := w.view().Desired; len(desired) != 0 || w.cluster().Status.Nodes != 3 {
		t.Fatalf("drained: %v", desired)
	}
	w.count(3)
	w.until("all is well again", w.complete)
}

// A node that is drained by name becomes empty, stays, and is filled again.
func TestDrainByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Drained = []string{"demo-node-1"} })
	w.until("it is empty", func() bool { return len(w.view().Map.MembersOn("demo-node-1")) == 0 && w.complete() })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Drained = []string{"demo-node-1", "demo-node-2"} })
	w.until("a second one is refused", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "DrainRefused" })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Drained = nil })
	w.until("it is filled again", func() bool { return len(w.view().Map.MembersOn("demo-node-1")) > 0 && w.complete() })
}
