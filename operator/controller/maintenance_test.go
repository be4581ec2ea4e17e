package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// restarted returns how many pods of a component are others than they were.
func (w *world) restarted(component string, were map[string]string) (n int) {
	for name, uid := range w.uids(component) {
		if were[name] != string(uid) {
			n++
		}
	}
	return n
}

func (w *world) identities(component string) map[string]string {
	is := map[string]string{}
	for name, uid := range w.uids(component) {
		is[name] = string(uid)
	}
	return is
}

// Outside the window changed pods wait, and the conditions say until when; what is lost, scaled or
// asked for by name does not. In the window all is changed in order, and what is not done by its
// end waits for the next one.
func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create(small)
	w.until("the cluster is made", w.complete)
	nodes, members := w.identities(build.ComponentNode), w.identities(build.ComponentEtcd)
	// The window opens in an hour.
	opens := w.now.UTC().Truncate(time.Minute).Add(time.Hour)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Maintenance = &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Schedule: opens.Format("4 15 * * *"), Duration: "1h"}}}
		s.Image = "tickmesh:next"
	})
	for range 5 {
		w.step()
	}
	c := w.condition(v1alpha1.ConditionProgressing)
	if c.Status != metav1.ConditionTrue || c.Reason != "MaintenanceWindow" || !strings.Contains(c.Message, opens.Format(time.RFC3339)) || !strings.Contains(c.Message, "etcd, node, router, envoy") {
		t.Fatalf("%+v", c)
	}
	if ready := w.condition(v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse || ready.Reason != "MaintenanceWindow" {
		t.Fatalf("%+v", ready)
	}
	if m := w.cluster().Status.Maintenance; m == nil || m.Open || m.Until == nil || !m.Until.Time.Equal(opens) || !slices.Equal(m.Waiting, []string{"etcd", "node", "router", "envoy"}) {
		t.Fatalf("%+v", m)
	}
	unchanged := func(what string) {
		t.Helper()
		for _, component := range []string{build.ComponentEtcd, build.ComponentNode, build.ComponentRouter} {
			if slices.Contains(w.images(component), "tickmesh:next") {
				t.Fatalf("%s: %s is changed", what, component)
			}
		}
	}
	unchanged("it waits")
	// A pod that is lost comes back as it was, and nodes can be added.
	w.must(w.api.Delete(t.Context(), w.pod("demo-node-0"), client.GracePeriodSeconds(0)))
	w.stopProcess("demo-node-0")
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 4 })
	w.until("four nodes are ready", func() bool { return w.cluster().Status.ReadyNodes == 4 && w.cluster().Status.ShardsMoving == 0 })
	unchanged("it was scaled")
	// A restart that a person asks for is made of what is there.
	nodes = w.identities(build.ComponentNode)
	w.annotate(v1alpha1.AnnotationRestart+build.ComponentNode, "today")
	w.until("the nodes are restarted", func() bool {
		return w.restarted(build.ComponentNode, nodes) == 4 && w.cluster().Status.ReadyNodes == 4 && w.condition(v1alpha1.ConditionProgressing).Reason == "MaintenanceWindow"
	})
	unchanged("they were restarted")
	if n := w.restarted(build.ComponentEtcd, members); n > 0 {
		t.Fatalf("%d members of etcd were restarted", n)
	}
	// It opens, and closes when etcd and one node are done.
	nodes = w.identities(build.ComponentNode)
	w.now = opens
	w.until("a node is restarted", func() bool { return w.restarted(build.ComponentNode, nodes) > 0 })
	w.now = opens.Add(time.Hour)
	w.until("it waits for the next window", func() bool {
		w.now = opens.Add(time.Hour) // but for the time that it takes
		return w.condition(v1alpha1.ConditionProgressing).Reason == "MaintenanceWindow"
	})
	done := w.restarted(build.ComponentNode, nodes)
	for range 5 {
		w.step()
	}
	if n := w.restarted(build.ComponentNode, nodes); n != done || n == len(nodes) {
		t.Fatalf("%d of %d nodes were restarted, then %d", done, len(nodes), n)
	}
	if m := w.cluster().Status.Maintenance; !slices.Equal(m.Waiting, []string{"node", "router", "envoy"}) || !m.Until.Time.Equal(opens.Add(24*time.Hour)) {
		t.Fatalf("%+v", m)
	}
	// A person lets it go on.
	w.annotate(v1alpha1.AnnotationMaintainUntil, w.now.Add(12*time.Hour).Format(time.RFC3339))
	w.until("all is as spec asks for", func() bool { return w.complete() && w.cluster().Status.Version == "next" })
}
