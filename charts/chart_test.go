package charts_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

// sets are values that charts are rendered with: files in testdata.
func sets() []string {
	return []string{"default", "operator", "full", "cluster", "operator-default", "operator-full"}
}

// chartOf returns the folder of the chart that a set is of.
func chartOf(set string) string {
	if strings.HasPrefix(set, "operator-") {
		return "tickmesh-operator"
	}
	return "tickmesh"
}

func valuesOf(set string) string { return filepath.Join("testdata", set+".values.yaml") }

// program returns the path of the real helm, which a script of the project compiles.
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
func render(t *testing.T, set string, more ...string) string {
	t.Helper()
	args := []string{"template", "metrics-db", chartOf(set), "--namespace", "db", "--kube-version", "v1.34.0", "--values", valuesOf(set)}
	out, err := helm(t, append(args, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLint(t *testing.T) {
	for _, set := range sets() {
		if out, err := helm(t, "lint", "--strict", chartOf(set), "--values", valuesOf(set)); err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// What is rendered is what the files in testdata show. They leave out the rules of roles
// that follow from the operator's markers and from the definitions: TestRights and TestServer compare those.
func TestGolden(t *testing.T) {
	for _, set := range sets() {
		path := filepath.Join("testdata", set+".yaml")
		got := withoutRules(render(t, set))
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
		made := strings.Contains(document, "templates/operator/role.yaml\n") || strings.Contains(document, "templates/operator/users.yaml\n")
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
		{"operator.enabled=false,cluster.enabled=false", "nothing is left to install"},
		{"operator.enabled=false,monitoring.rules=true", "monitoring.rules belongs to the operator"},
		{"operator.extraArgs={--namespaces=other}", "operator.namespaces names the namespaces"},
		{"operator.extraArgs={--metrics-addr}", "operator.extraArgs has --metrics-addr"},
		{"operator.extraArgs={log-level}", "/operator/extraArgs/0"},
		{"operator.extraEnv[0].name=POD_NAMESPACE", "the chart sets"},
		{"operator.serviceAccount.create=false", "set operator.serviceAccount.name"},
		{"operator.topologySpreadConstraints[0].topologyKey=zone", "/operator/topologySpreadConstraints/0"},
		{"image.digest=sha256:" + strings.Repeat("0", 64), "set the tag of the same image"},
		{"image.digest=latest", "/image/digest"},
		{"global.imageRegistry=https://registry.example", "/global/imageRegistry"},
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
	out := render(t, "default", "--set", "operator.upgradePause=null")
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
	everywhere := render(t, "default")
	if got := roleOf(everywhere, "db-metrics-db-operator"); !slices.Equal(got, rights(marked.Rules)) {
		t.Errorf("everywhere: %v", got)
	}
	some := render(t, "full")
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
		for _, folder := range []string{"tickmesh", "tickmesh-operator"} {
			chart, err := os.ReadFile(folder + "/Chart.yaml")
			values, failed := os.ReadFile(folder + "/values.yaml")
			if want := strings.ReplaceAll(c.in, "%s", version); !ok || err != nil || failed != nil || !strings.Contains(string(chart)+string(values), want) {
				t.Errorf("%s has %q, but the chart %s has no %q", c.source, version, folder, want)
			}
		}
	}
}

// ofOthers are values for objects that other programs read, and that are long.
const ofOthers = "monitoring.operatorMonitor=ServiceMonitor,monitoring.rules=true,monitoring.dashboards=true"

// Whatever can be set is set in one of the sets, or for what others read, to something else than its default.
func TestEveryValueIsTried(t *testing.T) {
	read := func(path string) map[string]any {
		content, err := os.ReadFile(path)
		var values map[string]any
		if err == nil {
			err = yaml.Unmarshal(content, &values)
		}
		if err != nil {
			t.Fatal(path, err)
		}
		return values
	}
	var walk func(name string, value any, tried []any)
	walk = func(name string, value any, tried []any) {
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			for key, value := range below {
				var inner []any
				for _, values := range tried {
					if m, ok := values.(map[string]any); ok && m[key] != nil {
						inner = append(inner, m[key])
					}
				}
				walk(name+"."+key, value, inner)
			}
			return
		}
		name = strings.TrimPrefix(name, ".")
		if !strings.Contains(ofOthers, name+"=") && !slices.ContainsFunc(tried, func(other any) bool { return !reflect.DeepEqual(value, other) }) {
			t.Errorf("no set sets %s to anything else than %v", name, value)
		}
	}
	for _, chart := range []string{"tickmesh", "tickmesh-operator"} {
		var tried []any
		for _, set := range sets() {
			tried = append(tried, read(valuesOf(set)))
		}
		walk("", read(filepath.Join(chart, "values.yaml")), tried)
	}
}

// Who may not make roles gets none, and no Job that needs some.
func TestWithoutRoles(t *testing.T) {
	out := render(t, "operator-full")
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Job"} {
		if n := len(documents[map[string]any](t, out, kind)); n != 0 {
			t.Errorf("%d of %s", n, kind)
		}
	}
	d := only(t, out, "Deployment", "-operator", deploymentName)
	if d.Spec.Template.Spec.ServiceAccountName != "mine" {
		t.Error(d.Spec.Template.Spec.ServiceAccountName)
	}
}

// The operator's chart renders what the chart of a cluster renders for it, and the two together all of it.
func TestTwoChartsAreTheOne(t *testing.T) {
	sources := regexp.MustCompile("(?m)^(---|# Source: .*)\n")
	objects := func(set string, more ...string) (list []string) {
		for document := range strings.SplitSeq(render(t, set, more...), "\n---\n") {
			document = sources.ReplaceAllString(document, "")
			document = strings.ReplaceAll(document, "helm.sh/chart: tickmesh-operator-", "helm.sh/chart: tickmesh-")
			if document = strings.TrimSpace(document); document != "" {
				list = append(list, document)
			}
		}
		slices.Sort(list)
		return list
	}
	one := objects("default")
	two := append(objects("operator-default"), objects("default", "--set", "operator.enabled=false")...)
	if slices.Sort(two); len(one) < 10 || !slices.Equal(one, two) {
		t.Errorf("one chart renders %d objects:\n%s\ntwo %d:\n%s", len(one), strings.Join(one, "\n"), len(two), strings.Join(two, "\n"))
	}
}
