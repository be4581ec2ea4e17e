package charts_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const configFolder = "../operator/config"

// kubectl runs the one beside the API server.
func (s *apiServer) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append(args, "--kubeconfig", s.kubeconfig)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), errors.Join(err, errors.New(log.String())))
	}
	return string(out)
}

// operator/config is another way to install what the chart installs, by the command that its
// users type.
func testConfig(t *testing.T, s *apiServer) {
	s.kubectl(t, "apply", "-k", filepath.Join(configFolder, "default"))
	s.kubectl(t, "apply", "-k", filepath.Join(configFolder, "samples"), "--dry-run=server")
	t.Run("as the chart", func(t *testing.T) { testConfigAsChart(t, s) })
	t.Run("restricted", func(t *testing.T) { testRestricted(t, s) })
	t.Run("users", func(t *testing.T) { testUserRoles(t, s) })
	t.Run("changed", func(t *testing.T) { testConfigChanged(t, s) })
}

// only returns the one object of a kind whose name ends so.
func only[T any](t *testing.T, text, kind, end string, name func(*T) string) *T {
	t.Helper()
	all := documents[T](t, text, kind)
	all = slices.DeleteFunc(all, func(o T) bool { return !strings.HasSuffix(name(&o), end) })
	if len(all) != 1 {
		t.Fatalf("%d objects %s named …%s", len(all), kind, end)
	}
	return &all[0]
}

func deploymentName(d *appsv1.Deployment) string { return d.Name }
func roleName(r *rbacv1.ClusterRole) string      { return r.Name }

// What the operator may do, what it is told, and what its pod may do are what the chart renders with
// its default values; so are the rights of people.
func testConfigAsChart(t *testing.T, s *apiServer) {
	chart := render(t, "default")
	config := s.kubectl(t, "kustomize", filepath.Join(configFolder, "default"))
	a := only(t, chart, "Deployment", "-operator", deploymentName)
	b := only(t, config, "Deployment", "-operator", deploymentName)
	if b.Namespace != "tickmesh-system" || b.Name != "tickmesh-operator" || b.Spec.Template.Spec.ServiceAccountName != "tickmesh-operator" {
		t.Errorf("%s/%s runs as %s", b.Namespace, b.Name, b.Spec.Template.Spec.ServiceAccountName)
	}
	for _, d := range []*appsv1.Deployment{a, b} {
		told(&d.Spec.Template.Spec)
		d.Spec.Template.Labels, d.Spec.Selector = nil, nil
	}
	if !equality.Semantic.DeepEqual(a.Spec, b.Spec) {
		chart, err := yaml.Marshal(a.Spec)
		config, failed := yaml.Marshal(b.Spec)
		t.Errorf("the chart runs\n%s\nand operator/config\n%s (%v, %v)", chart, config, err, failed)
	}
	for _, end := range []string{
		"-operator", "-tickmeshcluster-viewer", "-tickmeshcluster-editor", "-tickmeshbackup-viewer", "-tickmeshbackup-editor",
		"-tickmeshbackupschedule-viewer", "-tickmeshbackupschedule-editor", "-tickmeshrestore-viewer", "-tickmeshrestore-editor",
	} {
		x, y := only(t, chart, "ClusterRole", end, roleName), only(t, config, "ClusterRole", end, roleName)
		if !equality.Semantic.DeepEqual(x.Rules, y.Rules) || len(y.Rules) == 0 {
			t.Errorf("the chart has the role %v\nand operator/config %v", x, y)
		}
		for label, value := range y.Labels {
			if x.Labels[label] != value {
				t.Errorf("%s of the chart has no label %s", x.Name, label)
			}
		}
	}
	x, y := documents[rbacv1.Role](t, chart, "Role"), documents[rbacv1.Role](t, config, "Role")
	if len(x) != 1 || len(y) != 1 || !equality.Semantic.DeepEqual(x[0].Rules, y[0].Rules) || y[0].Namespace != b.Namespace {
		t.Errorf("roles of the chart %v, of operator/config %v", x, y)
	}
	if chart, config := bindings(t, chart), bindings(t, config); !slices.Equal(chart, config) {
		t.Errorf("bindings of the chart %v, of operator/config %v", chart, config)
	}
	nx, ny := documents[networkingv1.NetworkPolicy](t, chart, "NetworkPolicy"), documents[networkingv1.NetworkPolicy](t, config, "NetworkPolicy")
	if len(nx) != 1 || len(ny) != 1 || !equality.Semantic.DeepEqual(nx[0].Spec.Ingress, ny[0].Spec.Ingress) {
		t.Errorf("policies of the chart %v, of operator/config %v", nx, ny)
	}
}

// told puts values in the place of variables of the arguments, and leaves out what only says the same
// in other words.
func told(pod *corev1.PodSpec) {
	c := &pod.Containers[0]
	for _, variable := range c.Env {
		if variable.Value != "" {
			for i := range c.Args {
				c.Args[i] = strings.ReplaceAll(c.Args[i], "$("+variable.Name+")", variable.Value)
			}
		}
	}
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Value != "" })
	pod.ServiceAccountName = ""
}

// bindings returns what is bound, without the names that a release chooses. The subject of all is
// the operator's account.
func bindings(t *testing.T, text string) (list []string) {
	t.Helper()
	check := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if len(subjects) != 1 || subjects[0].Kind != "ServiceAccount" || !strings.HasSuffix(subjects[0].Name, "-operator") || subjects[0].Namespace == "" {
			t.Errorf("%v is bound to %v", ref, subjects)
		}
		list = append(list, ref.Kind)
	}
	for _, b := range documents[rbacv1.ClusterRoleBinding](t, text, "ClusterRoleBinding") {
		if b.Annotations["helm.sh/hook"] == "" { // not of the Job that only an upgrade runs
			check(b.RoleRef, b.Subjects)
		}
	}
	for _, b := range documents[rbacv1.RoleBinding](t, text, "RoleBinding") {
		check(b.RoleRef, b.Subjects)
	}
	return list
}

// The namespace takes the operator's pod, and no other kind.
func testRestricted(t *testing.T, s *apiServer) {
	d := &appsv1.Deployment{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "tickmesh-system", Name: "tickmesh-operator"}, d); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "try"}, Spec: d.Spec.Template.Spec}
	if err := s.api.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	if err := s.api.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a pod that may gain rights: %v", err)
	}
}

// Who views sees all kinds and changes none; who edits scales clusters, but does not write what only
// the operator knows.
func testUserRoles(t *testing.T, s *apiServer) {
	for _, role := range []string{"viewer", "editor"} {
		for _, kind := range []string{"cluster", "backup", "backupschedule", "restore"} {
			if err := s.api.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role + kind},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tickmesh-tickmesh" + kind + "-" + role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: role}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	may := func(user, verb, resource, below string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "db", Group: "tickmesh.dev", Version: "v1alpha1", Resource: resource, Subresource: below, Verb: verb,
		}}}
		if err := s.api.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, resource := range []string{"tickmeshclusters", "tickmeshbackups", "tickmeshbackupschedules", "tickmeshrestores"} {
		for _, verb := range []string{"get", "list", "watch"} {
			if !may("viewer", verb, resource, "") || !may("editor", verb, resource, "") {
				t.Errorf("%s of %s is not allowed to both", verb, resource)
			}
		}
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			if may("viewer", verb, resource, "") || !may("editor", verb, resource, "") {
				t.Errorf("%s of %s is not the editor's alone", verb, resource)
			}
		}
		if may("editor", "patch", resource, "status") || !may("viewer", "get", resource, "status") {
			t.Errorf("the status of %s", resource)
		}
	}
	if !may("editor", "patch", "tickmeshclusters", "scale") || may("viewer", "patch", "tickmeshclusters", "scale") {
		t.Error("scaling is not the editor's alone")
	}
}

// What the kustomization says can be done to it: other images, and the monitor.
func testConfigChanged(t *testing.T, s *apiServer) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(configFolder)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "default", "kustomization.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(content), "#- ../prometheus", "- ../prometheus", 1) + `
images:
- {name: tickmesh-operator, newName: registry.example/operator, newTag: "2"}
- {name: tickmesh, newName: registry.example/tickmesh, newTag: "3"}
- {name: envoyproxy/envoy, newName: registry.example/envoy, newTag: "4"}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.kubectl(t, "kustomize", filepath.Dir(path))
	d := only(t, out, "Deployment", "-operator", deploymentName)
	told(&d.Spec.Template.Spec)
	c := d.Spec.Template.Spec.Containers[0]
	if c.Image != "registry.example/operator:2" || !slices.Contains(c.Args, "--image=registry.example/tickmesh:3") || !slices.Contains(c.Args, "--envoy-image=registry.example/envoy:4") {
		t.Errorf("%s %v", c.Image, c.Args)
	}
	applied := s.kubectl(t, "apply", "-k", filepath.Dir(path), "--dry-run=server")
	for _, kind := range []string{"podmonitor", "prometheusrule"} {
		if !strings.Contains(applied, kind+".monitoring.coreos.com/tickmesh-operator") {
			t.Errorf("no %s in\n%s", kind, applied)
		}
	}
	rendered := render(t, "default", "--set", "monitoring.rules=true,monitoring.operatorMonitor=PodMonitor")
	x, y := documents[map[string]any](t, rendered, "PrometheusRule"), documents[map[string]any](t, out, "PrometheusRule")
	if len(x) != 1 || len(y) != 1 || !equality.Semantic.DeepEqual(x[0]["spec"], y[0]["spec"]) {
		t.Error("the alerts are not those of the chart")
	}
}
