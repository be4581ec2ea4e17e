package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// A real API server takes the objects that the page about operating shows.
func testPages(t *testing.T, s *apiServer) {
	page, err := os.ReadFile("tickmesh/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}}); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, match := range regexp.MustCompile("(?s)(?:```yaml\n(.*?)```|<<END\n(.*?)\nEND\n)").FindAllStringSubmatch(string(page), -1) {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(match[1]+match[2]), &u.Object); err != nil {
			t.Fatalf("%v\n%s", err, match[0])
		}
		kinds[u.GetKind()]++
		if err := s.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.DryRunAll); err != nil {
			t.Errorf("%v\n%s", err, match[0])
		}
	}
	for _, kind := range []string{"TickMeshCluster", "TickMeshBackupSchedule", "TickMeshRestore"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was found", kind)
		}
	}
}

// The manifest for k3s installs this version of the chart from the archive that `make chart` writes, with the
// values for k3s, and so does `helm install` from the checkout.
func TestK3sManifest(t *testing.T) {
	content, err := os.ReadFile("k3s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Kind string
		Spec struct{ Chart, ValuesContent string }
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/chart", "-out", dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "tickmesh-[0-9]*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatal(archives, err)
	}
	if name := filepath.Base(archives[0]); manifest.Kind != "HelmChart" || !strings.HasSuffix(manifest.Spec.Chart, "/static/charts/"+name) || strings.Count(string(content), name) != 2 {
		t.Errorf("%s installs %s, the chart is %s", manifest.Kind, manifest.Spec.Chart, name)
	}
	values := filepath.Join(dir, "manifest.yaml")
	if err := os.WriteFile(values, []byte(manifest.Spec.ValuesContent), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered := func(chart, values string, more ...string) *v1alpha1.TickMeshCluster {
		out, err := helm(t, append([]string{"template", "tickmesh", chart, "--values", values, "--kube-version", "v1.34.0"}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		return only(t, out, "TickMeshCluster", "demo", func(c *v1alpha1.TickMeshCluster) string { return c.Name })
	}
	a := rendered(archives[0], values)
	b := rendered("tickmesh", filepath.Join(dir, "values-k3s.yaml"), "--set", "cluster.name=demo")
	if !equality.Semantic.DeepEqual(a, b) || b.Spec.Service.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("the manifest makes %+v, the values %+v", a, b)
	}
}
