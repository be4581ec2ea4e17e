package charts_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// before has what the chart tickmesh rendered when it was the only one, and its values.
const before = "testdata/before"

// chartOfBefore returns a chart that renders what the one chart rendered for a set.
func chartOfBefore(t *testing.T, set string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: tickmesh, version: 0.0.9}\n",
		"templates/all.yaml": `{{ .Files.Get "rendered.yaml" }}`,
	}
	for from, to := range map[string]string{"values.yaml": "values.yaml", set + ".yaml": "rendered.yaml"} {
		content, err := os.ReadFile(filepath.Join(before, from))
		if err != nil {
			t.Fatal(err)
		}
		files[to] = string(content)
	}
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// installed returns the objects of a rendered release, but its hooks, as they are on the API server.
func (s *apiServer) installed(t *testing.T, rendered string) map[client.ObjectKey]types.UID {
	t.Helper()
	content, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[client.ObjectKey]types.UID{}
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.GetKind() == "" || u.GetAnnotations()["helm.sh/hook"] != "" {
			continue
		}
		if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
			continue
		}
		if u.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s is being deleted", u.GetKind(), u.GetName())
		}
		objects[client.ObjectKey{Namespace: u.GetNamespace(), Name: u.GetKind() + "/" + u.GetName()}] = u.GetUID()
	}
	return objects
}

// A release of the one chart is upgraded to the chart tickmesh of today, whatever becomes of the values, and no object goes
// or is made anew: the API server refuses changes of fields that cannot change. Values that only the new chart
// has are there then or not.
func testUpgrade(t *testing.T, s *apiServer) {
	for _, set := range []string{"default", "full"} {
		for _, flag := range []string{"--reuse-values", "--reset-then-reuse-values", "--reset-values"} {
			t.Run(set+flag, func(t *testing.T) {
				values := filepath.Join(before, set+".values.yaml")
				if set == "default" {
					values = valuesOf("default")
				}
				rendered := filepath.Join(before, set+".yaml")
				s.helm("install", "metrics-db", chartOfBefore(t, set), "--values", values)
				was := s.installed(t, rendered)
				args := []string{"upgrade", "metrics-db", "tickmesh", flag, "--set", "definitions.upgrade=false"}
				if flag == "--reset-values" {
					args = append(args, "--values", values)
				}
				s.helm(args...)
				is := s.installed(t, rendered)
				for key, uid := range was {
					if is[key] != uid {
						t.Errorf("%s was %s and is %s", key, uid, is[key])
					}
				}
				if len(was) < 8 {
					t.Errorf("%d objects", len(was))
				}
				s.helm("uninstall", "metrics-db")
				if set == "default" { // it keeps its cluster, which the next one takes over
					testSplit(t, s)
				}
			})
		}
	}
}

// What the one chart has installed becomes two releases and one again; the cluster is the same all the time.
func testSplit(t *testing.T, s *apiServer) {
	key := client.ObjectKey{Namespace: "db", Name: "metrics-db"}
	cluster := func() types.UID {
		c := &v1alpha1.TickMeshCluster{}
		if err := s.api.Get(t.Context(), key, c); err != nil || c.DeletionTimestamp != nil {
			t.Fatal(err, c.DeletionTimestamp)
		}
		return c.UID
	}
	was := cluster()
	s.helm("install", "metrics-db", "tickmesh")
	s.helm("upgrade", "metrics-db", "tickmesh", "--set", "operator.enabled=false,definitions.upgrade=false")
	d := &appsv1.Deployment{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "metrics-db-operator"}, d); !apierrors.IsNotFound(err) {
		t.Errorf("the release has its operator still: %v", err)
	}
	notes := s.helm("install", "tickmesh", "tickmesh-operator")
	if !strings.Contains(notes, "looks after clusters of all namespaces") {
		t.Error(notes)
	}
	err := s.tryHelm(t, "upgrade", "metrics-db", "tickmesh", "--set", "definitions.upgrade=false")
	if err == nil || !strings.Contains(err.Error(), "operator tickmesh-operator in namespace db looks after all namespaces already") {
		t.Errorf("a second operator: %v", err)
	}
	s.helm("upgrade", "tickmesh", "tickmesh-operator", "--set", "definitions.upgrade=false,operator.replicas=2")
	s.helm("uninstall", "tickmesh")
	s.helm("upgrade", "metrics-db", "tickmesh", "--set", "definitions.upgrade=false")
	if is := cluster(); is != was {
		t.Errorf("the cluster was %s and is %s", was, is)
	}
	s.helm("uninstall", "metrics-db")
	if is := cluster(); is != was {
		t.Errorf("the cluster was %s and is %s", was, is)
	}
}

// Who has rights in one namespace, and none on definitions, installs a cluster alone there.
func testTenant(t *testing.T, s *apiServer) {
	meta := metav1.ObjectMeta{Namespace: "db", Name: "tenant"}
	all := []string{"*"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: all}, // helm's releases
			{APIGroups: []string{v1alpha1.GroupVersion().Group}, Resources: []string{"tickmeshclusters"}, Verbs: all},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
		},
	} {
		if err := s.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	values := []string{"--kube-as-user", "tenant", "--set", "operator.enabled=false,cluster.keep=false"}
	err := s.tryHelm(t, append([]string{"install", "tenant", "tickmesh"}, values...)...)
	if err == nil || !strings.Contains(err.Error(), "customresourcedefinitions") {
		t.Errorf("definitions were made: %v", err)
	}
	s.helm(append([]string{"install", "tenant", "tickmesh", "--skip-crds"}, values...)...)
	s.helm(append([]string{"upgrade", "tenant", "tickmesh"}, values...)...)
	s.helm("uninstall", "tenant", "--kube-as-user", "tenant")
}

// An operator is not installed where another one, of whatever origin, looks after the same namespaces.
func testSecondOperator(t *testing.T, s *apiServer) {
	everywhere := "operator tickmesh-operator in namespace tickmesh-system looks after "
	for _, c := range []struct{ set, want string }{
		{"operator.replicas=1", everywhere + "all namespaces already"},
		{"operator.namespaces={db,other}", everywhere + "namespace db already"},
		{"operator.guard=false", ""},
		{"rbac.create=false", ""}, // who has no rights elsewhere cannot look there
	} {
		err := s.tryHelm(t, "install", "second", "tickmesh-operator", "--dry-run=server", "--set", c.set)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.set, err, c.want)
		}
	}
	// Operators of different namespaces go together.
	if err := s.api.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "tickmesh-system", Name: "tickmesh-operator"}}); err != nil {
		t.Fatal(err)
	}
	s.helm("install", "second", "tickmesh-operator", "--set", "operator.namespaces={db}")
	if err := s.tryHelm(t, "install", "third", "tickmesh-operator", "--dry-run=server", "--set", "operator.namespaces={other}"); err != nil {
		t.Error(err)
	}
	for _, set := range []string{"operator.namespaces={other,db}", "operator.replicas=1"} {
		err := s.tryHelm(t, "install", "third", "tickmesh-operator", "--dry-run=server", "--set", set)
		if err == nil || !strings.Contains(err.Error(), "operator second-operator in namespace db looks after namespace db already") {
			t.Errorf("%s: %v", set, err)
		}
	}
	s.helm("uninstall", "second")
}

func (s *apiServer) tryHelm(t *testing.T, args ...string) error {
	t.Helper()
	out, err := helm(t, append(args, "--kubeconfig", s.kubeconfig, "--namespace", "db")...)
	if err != nil {
		return errors.Join(err, errors.New(out))
	}
	return nil
}
