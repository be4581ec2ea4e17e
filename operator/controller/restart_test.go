package controller_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// uids returns those of a component's pods by name.
func (w *world) uids(component string) map[string]types.UID {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: component}))
	uids := map[string]types.UID{}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids
}

// annotate sets an annotation of the cluster; empty: it is taken away.
func (w *world) annotate(key, value string) {
	w.t.Helper()
	c := w.cluster()
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[key] = value
	if value == "" {
		delete(c.Annotations, key)
	}
	w.must(w.api.Update(w.t.Context(), c))
}

// The annotation restarts each node once, one at a time and only when all others are ready, whatever
// kills the operator meanwhile; nothing else is restarted, and nothing when it is taken away.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	nodes, members := w.uids(build.ComponentNode), w.uids(build.ComponentEtcd)
	routers := w.deployment("demo-router").Spec.Template
	const key = v1alpha1.AnnotationRestart + build.ComponentNode
	w.annotate(key, "today")
	changed := func() (n int) {
		now := w.uids(build.ComponentNode)
		for name, uid := range nodes {
			if now[name] != uid {
				n++
			}
		}
		return n
	}
	for before, steps := 0, 0; ; steps++ {
		w.newOperator(0)
		if w.step(); changed() > before+1 {
			t.Fatalf("%d nodes were restarted at once", changed()-before)
		}
		before = changed()
		if before == len(nodes) && w.complete() {
			break
		}
		if w.cluster().Status.ReadyNodes < 2 {
			t.Fatalf("%d nodes are ready", w.cluster().Status.ReadyNodes)
		}
		if steps > stepsMax {
			t.Fatalf("%d of %d nodes were restarted: %+v", before, len(nodes), w.cluster().Status.Conditions)
		}
	}
	nodes = w.uids(build.ComponentNode)
	w.annotate(key, "")
	for range 5 {
		w.step()
	}
	if n := changed(); n > 0 {
		t.Errorf("%d nodes are restarted when the annotation is taken away", n)
	}
	now := w.uids(build.ComponentEtcd)
	for name, uid := range members {
		if now[name] != uid {
			t.Errorf("%s was restarted", name)
		}
	}
	if is := w.deployment("demo-router").Spec.Template; is.Annotations[v1alpha1.Group+"/restarted"] != "" || !slices.Equal(is.Spec.Containers[0].Args, routers.Spec.Containers[0].Args) {
		t.Errorf("routers changed: %+v", is)
	}
	w.annotate(v1alpha1.AnnotationRestart+build.ComponentRouter, "today")
	w.until("routers are replaced", func() bool {
		return w.complete() && w.deployment("demo-router").Spec.Template.Annotations[v1alpha1.Group+"/restarted"] == "today"
	})
	if n := changed(); n > 0 {
		t.Errorf("%d nodes are restarted with the routers", n)
	}
}
