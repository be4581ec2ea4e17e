package plugin

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// The plugin writes spec.hibernated and nothing else, and says what follows.
func TestHibernate(t *testing.T) {
	w := newWorld(t, demo(3))
	spec := func() v1alpha1.TickMeshClusterSpec {
		c := &v1alpha1.TickMeshCluster{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "demo"}, c); err != nil {
			t.Fatal(err)
		}
		return c.Spec
	}
	before := spec().Nodes.Count
	w.wants("hibernate demo", "Envoy, routers, nodes and etcd stop in this order")
	if is := spec(); !is.Hibernated || is.Nodes.Count != before {
		t.Errorf("%+v", is)
	}
	w.wants("pause")
	w.wants("wake", "demo wakes", "begins when it is resumed")
	if spec().Hibernated {
		t.Error("it is still to sleep")
	}
	w.wants("wake -o json", `"hibernated": false`)
	w.refuses("hibernate other", "not found")
}
