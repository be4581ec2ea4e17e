package plugin

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// The plugin writes until when restarts may begin, and takes that back.
func TestMaintain(t *testing.T) {
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "db"}}
	w := newWorld(t, c)
	if _, err := w.run(t.Context(), "maintain demo"); err == nil || !strings.Contains(err.Error(), "no maintenance windows") {
		t.Fatal(err)
	}
	c.Spec.Maintenance = &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Schedule: "@weekly", Duration: "4h"}}}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(c), &v1alpha1.TickMeshCluster{}); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	annotation := func() string {
		is := &v1alpha1.TickMeshCluster{}
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(c), is); err != nil {
			t.Fatal(err)
		}
		return is.Annotations[v1alpha1.AnnotationMaintainUntil]
	}
	out, err := w.run(t.Context(), "maintain demo --for 2h")
	until, wrong := time.Parse(time.RFC3339, annotation())
	if left := time.Until(until); err != nil || wrong != nil || left < time.Hour || left > 2*time.Hour || !strings.Contains(out, "may begin until") {
		t.Fatal(out, err, wrong, left)
	}
	if out, err = w.run(t.Context(), "maintain demo --stop"); err != nil || annotation() != "" {
		t.Fatal(out, err)
	}
	if _, err = w.run(t.Context(), "maintain demo --for 0s"); err == nil || !strings.Contains(err.Error(), "--for") {
		t.Fatal(err)
	}
}
