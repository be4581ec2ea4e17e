package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// replicas returns the replicas of a component.
func (w *world) replicas(component string) int32 {
	w.t.Helper()
	if component == build.ComponentRouter || component == build.ComponentEnvoy {
		return *w.deployment(clusterName + "-" + component).Spec.Replicas
	}
	return *w.statefulSet(clusterName + "-" + component).Spec.Replicas
}

// A cluster goes to sleep and wakes in order, whatever kills the operator meanwhile; it has all of
// its volumes, members and nodes again, also those of a scale-in that was halfway, and an upgrade
// that was asked for meanwhile. Long after that nothing of it was taken for lost.
func TestHibernation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	claims := func() map[string]string {
		var list corev1.PersistentVolumeClaimList
		w.must(w.api.List(t.Context(), &list, client.InNamespace(w.namespace)))
		is := map[string]string{}
		for i := range list.Items {
			is[list.Items[i].Name] = string(list.Items[i].UID)
		}
		return is
	}
	before, members, order := claims(), len(w.etcd.members), []string{build.ComponentEtcd, build.ComponentNode, build.ComponentRouter, build.ComponentEnvoy}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 3 })
	w.until("a node is being emptied", func() bool { return w.cluster().Status.ShardsMoving > 0 })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = true })
	hibernated := func() metav1.Condition { return w.condition(v1alpha1.ConditionHibernated) }
	w.until("it sleeps", func() bool {
		w.newOperator(0)
		for i, component := range order {
			for _, later := range order[i+1:] {
				if w.replicas(component) == 0 && w.replicas(later) > 0 {
					t.Fatalf("%s stops before %s", component, later)
				}
			}
		}
		return hibernated().Status == metav1.ConditionTrue
	})
	if pods := len(w.uids(build.ComponentNode)) + len(w.uids(build.ComponentEtcd)); pods > 0 {
		t.Fatalf("%d pods are left", pods)
	}
	for kind, status := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionFalse, v1alpha1.ConditionReady: metav1.ConditionFalse,
		v1alpha1.ConditionProgressing: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionFalse,
	} {
		if c := w.condition(kind); c.Status != status || kind != v1alpha1.ConditionDegraded && c.Reason != "Hibernated" {
			t.Errorf("%+v", c)
		}
	}
	if c := w.cluster(); c.Status.Phase != v1alpha1.PhaseHibernated || c.Status.Etcd.UnavailableSince != nil {
		t.Errorf("%+v", c.Status)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:next" })
	for range 5 {
		w.step()
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = false })
	w.until("it wakes", func() bool {
		if hibernated().Reason != "Awake" { // later it would forget for how long a node has been empty
			w.newOperator(0)
		}
		for i, component := range order {
			for _, later := range order[i+1:] {
				if w.replicas(component) == 0 && w.replicas(later) > 0 {
					t.Fatalf("%s starts before %s", later, component)
				}
			}
		}
		if w.replicas(build.ComponentNode) > 0 && w.replicas(build.ComponentNode) < 3 {
			t.Fatalf("%d nodes", w.replicas(build.ComponentNode))
		}
		return hibernated().Reason == "Awake" && w.complete() && w.cluster().Status.Version == "next"
	})
	if after := claims(); len(after) != len(before) {
		t.Errorf("claims %v, they were %v", after, before)
	} else {
		for name, uid := range before {
			if after[name] != uid {
				t.Errorf("%s is another one", name)
			}
		}
	}
	if w.etcd.made != 1 || len(w.etcd.members) != members {
		t.Errorf("etcd was made %d times: %+v", w.etcd.made, w.etcd.members)
	}
	if w.cluster().Status.WakingSince != nil {
		t.Error("it is still waking")
	}
}

// A cluster may be made asleep, and sleeps with routers whose number follows their load.
func TestHibernatedFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{hibernated: true, shards: 6, replication: 2, nodes: {count: 3}, routers: {autoscaling: {min: 2, max: 5}}}")
	w.until("it sleeps", func() bool { return w.condition(v1alpha1.ConditionHibernated).Status == metav1.ConditionTrue })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = false })
	w.until("it is made", w.complete)
	if n := w.replicas(build.ComponentRouter); n != 2 {
		t.Errorf("%d routers", n)
	}
}
