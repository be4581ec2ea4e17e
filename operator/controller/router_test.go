package controller_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
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

// While a router of an older operator runs, which has no port of its own for metrics, all pods
// reach the one that it has; no longer, also when what is left of it stays in the list.
func TestMetricsOfOlderRouters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, monitoring: {podMonitor: true}}")
	open := func() (ports []int) {
		policy := &networkingv1.NetworkPolicy{}
		w.must(w.api.Get(t.Context(), w.key("demo-router"), policy))
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 1 && rule.From[0].PodSelector == nil {
				ports = append(ports, rule.Ports[0].Port.IntValue())
			}
		}
		return ports
	}
	w.until("the cluster is made", func() bool { return w.condition(v1alpha1.ConditionAvailable).Status == metav1.ConditionTrue })
	if is := open(); !slices.Equal(is, []int{build.PortMetrics}) {
		t.Fatalf("open to all pods are %v", is)
	}
	template := w.deployment("demo-router").Spec.Template.DeepCopy()
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "demo-router-old", Namespace: w.namespace, Labels: template.Labels}, Spec: template.Spec}
	old.Spec.PriorityClassName = ""
	old.Spec.Containers[0].Ports = old.Spec.Containers[0].Ports[:4]
	w.must(w.api.Create(t.Context(), old))
	w.pass()
	if is := open(); !slices.Equal(is, []int{build.PortHTTP, build.PortMetrics}) {
		t.Fatalf("open to all pods are %v", is)
	}
	old.Status.Phase = corev1.PodFailed // as it was evicted from its machine, which leaves it in the list
	w.must(w.api.Status().Update(t.Context(), old))
	w.pass()
	if is := open(); !slices.Equal(is, []int{build.PortMetrics}) {
		t.Fatalf("open to all pods are %v", is)
	}
}

// Routers of an image of spec stay without a port for metrics, which it may not know, until there
// is another image: a new operator restarts none of them.
func TestMetricsOfOlderImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{image: 'tickmesh:0.2.0', shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	w.pass()
	set := w.deployment("demo-router")
	if !build.HasMetricsPort(&set.Spec.Template.Spec) {
		t.Fatal("a new cluster has none")
	}
	router := &set.Spec.Template.Spec.Containers[0]
	router.Ports = router.Ports[:4]
	router.Env = slices.DeleteFunc(router.Env, func(e corev1.EnvVar) bool { return e.Name == "TICKMESH_METRICS_ADDR" })
	w.must(w.api.Update(t.Context(), set))
	w.newOperator(0)
	for range 3 {
		w.step()
	}
	if set := w.deployment("demo-router"); build.HasMetricsPort(&set.Spec.Template.Spec) {
		t.Fatal("they were restarted")
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:0.2.1" })
	w.until("they have one", func() bool { return build.HasMetricsPort(&w.deployment("demo-router").Spec.Template.Spec) })
}
