package charts_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

// sets are values that charts are rendered with: files in testdata.
func sets() []string { return []string{"default", "operator", "full"} }

func valuesOf(set string) string { return filepath.Join("testdata", set+".values.yaml") }

// program gives the real helm, which a script of the project compiles.
var program = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("../hack/scripts/helm.sh")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs helm with folders of its own.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test compiles helm")
	}
	path, err := program()
	if err != nil {
		t.Fatal("helm cannot be compiled: ", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HOME="+home)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(log.String()))
	}
	return string(out), err
}

// render returns the objects of a release named "metrics-db" in the namespace "db".
func render(t *testing.T, values string, more ...string) string {
	t.Helper()
	args := []string{"template", "metrics-db", "tickmesh", "--namespace", "db", "--kube-version", "v1.34.0", "--values", values}
	out, err := helm(t, append(args, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLint(t *testing.T) {
	for _, set := range sets() {
		if out, err := helm(t, "lint", "--strict", "tickmesh", "--values", valuesOf(set)); err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// What is rendered is what the files in testdata show. They leave out the rules of roles
// that follow from the operator's markers and from the definitions: TestRights and TestServer compare those.
func TestGolden(t *testing.T) {
	for _, set := range sets() {
		path := filepath.Join("testdata", set+".yaml")
		got := withoutRules(render(t, valuesOf(set)))
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; -rewrite writes it anew:\n%s", path, got)
		}
	}
}

func withoutRules(text string) string {
	all := strings.Split(text, "\n---\n")
	for i, document := range all {
		made := strings.Contains(document, "templates/role.yaml\n") || strings.Contains(document, "templates/users.yaml\n")
		if made && strings.Contains(document, "\nkind: ClusterRole\n") {
			head, _, _ := strings.Cut(document, "\nrules:\n")
			all[i] = head + "\nrules: []"
		}
	}
	return strings.Join(all, "\n---\n")
}

// Values that would do nothing, or something else than they seem to, are refused.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"operator.replica=2", "replica"},
		{"operator.replicas=two", "/operator/replicas"},
		{"cluster.spec.nodes.cuont=5", "cuont"},
		{"cluster.spec.replication=4", "/cluster/spec/replication"},
		{"cluster.spec.retention=soon", "/cluster/spec/retention"},
		{"cluster.spec.nodes.storage.size=large", "/cluster/spec/nodes/storage/size"},
		{"cluster.name=Metrics", "/cluster/name"},
		{"cluster.name=" + strings.Repeat("a", 41), "/cluster/name"},
		{"operator.namespaces={elsewhere}", "operator.namespaces leaves out db"},
		{"monitoring.operatorMonitor=Monitor", "/monitoring/operatorMonitor"},
		{"surplus=1", "surplus"},
	} {
		out, err := helm(t, "template", "x", "tickmesh", "--namespace", "db", "--kube-version", "v1.34.0", "--set", c.set)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q\n%s", c.set, err, c.want, out)
		}
	}
	long := strings.Repeat("a", 45)
	if _, err := helm(t, "template", long, "tickmesh", "--kube-version", "v1.34.0"); err == nil || !strings.Contains(err.Error(), "set cluster.name") {
		t.Errorf("a long name of the release: %v", err)
	}
	if _, err := helm(t, "template", long, "tickmesh", "--kube-version", "v1.34.0", "--set", "cluster.name=short"); err != nil {
		t.Error(err)
	}
	if _, err := helm(t, "template", "x", "tickmesh", "--kube-version", "v1.29.0"); err == nil || !strings.Contains(err.Error(), "kubeVersion") {
		t.Errorf("an old Kubernetes: %v", err)
	}
}

// Values of an older chart, which an upgrade may keep (--reuse-values), lack what came after it: the
// operator starts with its own defaults for that.
func TestValuesOfAnOlderChart(t *testing.T) {
	out := render(t, valuesOf("default"), "--set", "operator.upgradePause=null")
	if strings.Contains(out, "--upgrade-pause") {
		t.Error("the operator is told a pause that nobody has set")
	}
}

// documents returns the objects of a text.
func documents[T any](t *testing.T, text, kind string) (list []T) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if head.Kind != kind {
			continue
		}
		var one T
		if err := yaml.UnmarshalStrict([]byte(document), &one); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		list = append(list, one)
	}
	return list
}

// The operator has the rights of its markers: everywhere, or in its namespaces, and then
// of what has no namespace exactly those.
func TestRights(t *testing.T) {
	content, err := os.ReadFile("tickmesh/files/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var marked rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(content, &marked); err != nil {
		t.Fatal(err)
	}
	wide := []string{} // kinds without a namespace, of all that the operator uses
	for _, right := range rights(marked.Rules) {
		switch strings.Fields(right)[1] {
		case "nodes", "persistentvolumes", "storageclasses", "leases": // the lease of one name, of an operator elsewhere
			wide = append(wide, right)
		}
	}
	roleOf := func(text, name string) []string {
		for _, role := range documents[rbacv1.ClusterRole](t, text, "ClusterRole") {
			if role.Name == name {
				return rights(role.Rules)
			}
		}
		t.Fatalf("there is no role %s", name)
		return nil
	}
	everywhere := render(t, valuesOf("default"))
	if got := roleOf(everywhere, "db-metrics-db-operator"); !slices.Equal(got, rights(marked.Rules)) {
		t.Errorf("everywhere: %v", got)
	}
	some := render(t, valuesOf("full"))
	if got := roleOf(some, "db-metrics-db-operator"); len(wide) == 0 || !slices.Equal(got, wide) {
		t.Errorf("everywhere: %v, want %v", got, wide)
	}
	if got := roleOf(some, "db-metrics-db-operator-namespaced"); !slices.Equal(got, rights(marked.Rules)) {
		t.Errorf("in namespaces: %v", got)
	}
	bound := []string{}
	for _, b := range documents[rbacv1.RoleBinding](t, some, "RoleBinding") {
		if b.RoleRef.Name == "db-metrics-db-operator-namespaced" {
			bound = append(bound, b.Namespace)
		}
	}
	if !slices.Equal(bound, []string{"db", "other"}) {
		t.Errorf("bound in %v", bound)
	}
}

// rights returns rules as one line for each verb.
func rights(rules []rbacv1.PolicyRule) (lines []string) {
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					lines = append(lines, group+". "+resource+" "+verb)
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// The tags of images are those of the versions that the product has, and is tested with.
func TestVersions(t *testing.T) {
	for _, c := range []struct{ source, before, after, in string }{
		{"../api/process/version.go", `const Version = "`, `"`, `appVersion: "%s"`},
		{"../hack/scripts/envoy.sh", "\nversion=", "\n", "tag: distroless-v%s\n"},
	} {
		source, err := os.ReadFile(c.source)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(source), c.before)
		version, _, ok := strings.Cut(rest, c.after)
		chart, err := os.ReadFile("tickmesh/Chart.yaml")
		values, failed := os.ReadFile("tickmesh/values.yaml")
		if want := strings.ReplaceAll(c.in, "%s", version); !ok || err != nil || failed != nil || !strings.Contains(string(chart)+string(values), want) {
			t.Errorf("%s has %q, but the chart has no %q", c.source, version, want)
		}
	}
}
