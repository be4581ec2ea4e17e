package v1alpha1_test

import (
	"os"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// serve starts a real API server with the definitions.
func serve(t *testing.T) client.Client {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)")
	}
	server := &envtest.Environment{CRDDirectoryPaths: []string{"../../charts/tickmesh/crds"}, ErrorIfCRDPathMissing: true}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, autoscalingv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The API server takes the definitions, scales a cluster as far as its rules allow, and
// keeps spec and status apart.
func TestServerScales(t *testing.T) {
	api := serve(t)
	cluster := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default"}}
	if err := api.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Spec.Nodes.Count != 3 || cluster.Spec.TLS.Mode != v1alpha1.TLSModeOperator || cluster.Spec.Nodes.Storage.Size.String() != "10Gi" {
		t.Errorf("a Go client's empty spec has other defaults: %+v", cluster.Spec)
	}
	scale := &autoscalingv1.Scale{}
	resize := func(replicas int32) error {
		if err := api.SubResource("scale").Get(t.Context(), cluster, scale); err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas = replicas
		return api.SubResource("scale").Update(t.Context(), cluster, client.WithSubResourceBody(scale))
	}
	if err := resize(5); err != nil {
		t.Error(err)
	}
	if err := resize(1); !apierrors.IsInvalid(err) {
		t.Errorf("one node with two copies: %v", err)
	} else {
		check(t, "scale to 1", err, "raise nodes.count")
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil || cluster.Spec.Nodes.Count != 5 {
		t.Errorf("%d nodes, %v", cluster.Spec.Nodes.Count, err)
	}
	cluster.Status.Nodes, cluster.Status.Selector, cluster.Spec.Paused = 4, "a=b", true
	if err := api.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := api.SubResource("scale").Get(t.Context(), cluster, scale); err != nil || scale.Status.Replicas != 4 || scale.Status.Selector != "a=b" {
		t.Errorf("%+v, %v", scale.Status, err)
	}
	if cluster.Spec.Paused {
		t.Error("a change of the status changed the spec")
	}
}
