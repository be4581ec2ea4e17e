package controller_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Routers stay as many as they are when their number begins to follow the load, however
// often the operator is killed on the way.
func TestAutoscalingTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, routers: {count: 4}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Routers.Autoscaling = &v1alpha1.AutoscalingSpec{Min: 2, Max: 6, CPUPercent: 70}
	})
	replicas := func() int32 { return *w.deployment("demo-router").Spec.Replicas }
	for writes := 1; writes < 8; writes++ {
		w.newOperator(writes)
		w.step()
		if got := replicas(); got != 4 {
			t.Fatalf("%d routers after %d writes", got, writes)
		}
	}
	w.newOperator(0)
	for range 5 {
		w.step()
	}
	set := w.deployment("demo-router")
	changed := set.DeepCopy()
	*changed.Spec.Replicas = 3 // as an autoscaler does
	w.must(w.api.Patch(t.Context(), changed, client.MergeFrom(set), client.FieldOwner("autoscaler")))
	for range 5 {
		w.step()
	}
	if got := replicas(); got != 3 {
		t.Fatalf("%d routers, the autoscaler has set 3", got)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Routers.Autoscaling, s.Routers.Count = nil, 2 })
	w.until("the count counts again", func() bool { return replicas() == 2 })
}

// A name in nodes.drained that no node has is told of, and keeps nothing from being done.
func TestDrainOfNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3, drained: [demo-node-7]}}")
	w.until("it is told", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "UnknownNode" })
	if c := w.condition(v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse {
		t.Fatalf("%+v", c)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Drained = nil })
	w.until("all is as asked for", w.complete)
}
