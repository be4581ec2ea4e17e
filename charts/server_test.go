package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// apiServer is a real API server, and how helm finds it.
type apiServer struct {
	t          *testing.T
	api        client.Client
	config     *rest.Config
	kubeconfig string
}

func startServer(t *testing.T) *apiServer {
	t.Helper()
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
	user, err := server.AddUser(envtest.User{Name: "person", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	access, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{t: t, config: config, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := os.WriteFile(s.kubeconfig, access, 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	if s.api, err = client.New(config, client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServer(t *testing.T) {
	s := startServer(t)
	// Install comes first: it makes the definitions.
	t.Run("install", func(t *testing.T) { testInstall(t, s) })
	t.Run("objects", func(t *testing.T) { testObjects(t, s) })
	t.Run("upgrade", func(t *testing.T) { testUpgrade(t, s) })
	t.Run("tenant", func(t *testing.T) { testTenant(t, s) })
	t.Run("pages", func(t *testing.T) { testPages(t, s) })
	t.Run("config", func(t *testing.T) { testConfig(t, s) })
	t.Run("second operator", func(t *testing.T) { testSecondOperator(t, s) })
}

func (s *apiServer) helm(args ...string) string {
	s.t.Helper()
	out, err := helm(s.t, append(args, "--kubeconfig", s.kubeconfig, "--namespace", "db")...)
	if err != nil {
		s.t.Fatalf("helm %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (s *apiServer) cluster() *v1alpha1.TickMeshCluster {
	s.t.Helper()
	c := &v1alpha1.TickMeshCluster{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "db", Name: "tickmesh"}, c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// helm installs, upgrades and uninstalls on a real API server. What a person has scaled
// stays so, and the cluster stays when the release goes.
func testInstall(t *testing.T, s *apiServer) {
	notes := s.helm("install", "tickmesh", "tickmesh", "--create-namespace")
	for _, command := range []string{"kubectl -n db wait tmc/tickmesh --for=condition=Available", "helm -n db test tickmesh"} {
		if !strings.Contains(notes, command) {
			t.Errorf("the notes do not say %q:\n%s", command, notes)
		}
	}
	c := s.cluster()
	if c.Spec.Nodes.Count != 3 || c.Spec.Replication != 2 || c.Spec.Shards != 128 || c.Spec.Etcd.Managed == nil {
		t.Errorf("%+v", c.Spec)
	}
	before := c.DeepCopy()
	c.Spec.Nodes.Count = 5
	if err := s.api.Patch(t.Context(), c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	// There is nobody here who would run the Job that an upgrade begins with.
	s.helm("upgrade", "tickmesh", "tickmesh", "--set", "definitions.upgrade=false,cluster.spec.routers.count=4,operator.replicas=2")
	if c = s.cluster(); c.Spec.Nodes.Count != 5 || c.Spec.Routers.Count != 4 {
		t.Errorf("%d nodes, %d routers", c.Spec.Nodes.Count, c.Spec.Routers.Count)
	}
	s.helm("uninstall", "tickmesh")
	if c = s.cluster(); c.DeletionTimestamp != nil {
		t.Error("the cluster went with the release")
	}
	s.helm("install", "tickmesh", "tickmesh", "--set", "cluster.keep=false") // it takes the cluster over
	s.helm("uninstall", "tickmesh")
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster is still there: %v", err)
	}
}

// A real API server takes everything that is rendered, hooks and tests included, and
// knows every field of it.
func testObjects(t *testing.T, s *apiServer) {
	crds, err := filepath.Glob("tickmesh/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(s.config, envtest.CRDInstallOptions{Paths: crds, CRDs: monitoringDefinitions()}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "other"} {
		err := s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]bool{}
	for _, set := range sets() {
		for _, more := range []string{"", ofOthers} {
			if set == "cluster" {
				more = "" // the operator's
			}
			for document := range strings.SplitSeq(render(t, set, "--set", more), "\n---\n") {
				u := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict([]byte(document), &u.Object); err != nil {
					t.Fatalf("%v\n%s", err, document)
				}
				if u.GetKind() == "" {
					continue // a comment
				}
				kinds[u.GetKind()] = true
				err := s.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
				if err != nil {
					t.Errorf("%s: %s %s: %v", set, u.GetKind(), u.GetName(), err)
				}
			}
		}
	}
	for _, kind := range []string{"Deployment", "TickMeshCluster", "Pod", "Job", "ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget"} {
		if !kinds[kind] {
			t.Errorf("no %s was rendered", kind)
		}
	}
}

// monitoringDefinitions stand for those of the Prometheus operator.
func monitoringDefinitions() (list []*apiextensionsv1.CustomResourceDefinition) {
	for _, kind := range []string{"PodMonitor", "ServiceMonitor", "PrometheusRule"} {
		plural := strings.ToLower(kind) + "s"
		list = append(list, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".monitoring.coreos.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					}},
				}},
			},
		})
	}
	return list
}
