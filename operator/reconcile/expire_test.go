package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// An object of the same name that took the place of the one whose time is over keeps its data.
func TestExpireOfAnother(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	is := &v1alpha1.TickMeshBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "new", Finalizers: []string{"tickmesh.dev/backup"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(is).Build()
	seen := is.DeepCopy()
	seen.UID, seen.ResourceVersion = "old", "1"
	if err := expire(t.Context(), &Scope{Client: c}, seen); err == nil {
		t.Error("one that is not there any more has expired")
	}
	now := &v1alpha1.TickMeshBackup{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(is), now); err != nil {
		t.Fatal(err)
	}
	if now.Annotations[v1alpha1.AnnotationExpired] != "" {
		t.Error("the new backup is marked as expired: its data would go with it")
	}
}
