package build_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tickmesh/tickmesh/operator/build"
)

// A real API server takes all objects of all golden files, and those of one cluster in
// place of another's where the spec may change so.
func TestServerTakesObjects(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)")
	}
	server := &envtest.Environment{}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(o build.Object) {
		t.Helper()
		u, err := build.Configuration(o)
		if err != nil {
			t.Fatal(err)
		}
		if u.GetAPIVersion() == "monitoring.coreos.com/v1" {
			return
		}
		owner := client.FieldOwner("test")
		if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership); err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
	changed := specs["default"] + `  image: other
  walSync: always
  nodes: {count: 5, storage: {size: 20Gi, deletionPolicy: Delete}, zones: {required: true, topologyKey: rack}}
  envoy: {replicas: 1, accessLog: true}
  routers: {autoscaling: {max: 4}}
  service: {type: LoadBalancer, tls: {}}
  etcd: {managed: {storage: {size: 2Gi}}}
`
	for name, steps := range map[string][]string{
		"default": {specs["default"], changed, specs["default"], withAdditions, specs["default"]}, "single": {specs["single"]}, "full": {specs["full"]}, "external": {specs["external"]},
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test-" + name}}
		if err := api.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		for _, spec := range steps {
			c := cluster(t, spec)
			c.Namespace = "test-" + name
			f := facts(c)
			f.NodeClaims = build.ClaimTemplateOf(build.NodeStatefulSet(cluster(t, steps[0]), f, "")) // as it was made with
			if c.Spec.Etcd.Managed != nil {
				f.EtcdClaims = build.ClaimTemplateOf(build.EtcdStatefulSet(cluster(t, steps[0]), f))
			}
			objects, err := build.Objects(c, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				apply(o)
			}
			for _, o := range build.Unwanted(c, f) {
				if _, foreign := o.(*unstructured.Unstructured); foreign {
					continue
				}
				if err := api.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
					t.Errorf("delete %T %s: %v", o, o.GetName(), err)
				}
			}
		}
	}
	c := cluster(t, "")
	c.Namespace = "default"
	for _, target := range []string{toVolume, toS3} {
		b := backup(t, target)
		b.Namespace, b.UID = "default", c.UID
		b.Name = map[string]string{toVolume: "monday", toS3: "tuesday"}[target]
		for _, o := range []build.Object{build.BackupJob(c, facts(c), b), build.VerifyJob(c, facts(c), b), build.DeleteJob(c, facts(c), b)} {
			apply(o)
		}
	}
}
