package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// bundled is what a ClusterServiceVersion has that the rules are about.
type bundled struct {
	APIVersion, Kind string
	Metadata         struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		DisplayName, Description, Version, MinKubeVersion, Maturity string

		Provider     struct{ Name, URL string }
		Maintainers  []struct{ Name, Email string }
		Icon         []struct{ Base64data, Mediatype string }
		InstallModes []struct {
			Type      string
			Supported bool
		}
		RelatedImages             []struct{ Name, Image string }
		Customresourcedefinitions struct{ Owned []owned }
		Install                   struct {
			Strategy string
			Spec     struct {
				Deployments []struct {
					Name string
					Spec appsv1.DeploymentSpec
				}
				ClusterPermissions, Permissions []struct {
					ServiceAccountName string
					Rules              []rbacv1.PolicyRule
				}
			}
		}
	}
}

type owned struct {
	Name, Kind, Version, DisplayName, Description string

	Resources                          []struct{ Kind, Version string }
	SpecDescriptors, StatusDescriptors []struct{ Path, DisplayName, Description string }
}

func (o *owned) describes(path string) bool {
	for _, d := range o.SpecDescriptors {
		if d.Path == path {
			return true
		}
	}
	return false
}

func readBundle(t *testing.T) *bundled {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, folderBundle, "manifests", nameOperator+".clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundled{}
	if err := yaml.Unmarshal(content, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// What `operator-sdk bundle validate` asks of a ClusterServiceVersion. `make lint` runs the
// checks of operator-framework's own library, too.
func TestBundleIsComplete(t *testing.T) {
	b := readBundle(t)
	if b.APIVersion != "operators.coreos.com/v1alpha1" || b.Kind != "ClusterServiceVersion" {
		t.Errorf("%s %s", b.APIVersion, b.Kind)
	}
	semver := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	if !semver.MatchString(b.Spec.Version) || b.Metadata.Name != nameOperator+".v"+b.Spec.Version || !semver.MatchString(b.Spec.MinKubeVersion) {
		t.Errorf("version %q of %q, Kubernetes %q", b.Spec.Version, b.Metadata.Name, b.Spec.MinKubeVersion)
	}
	chart, err := os.ReadFile(filepath.Join(root, folderChart, "Chart.yaml"))
	if err != nil || !strings.Contains(string(chart), `kubeVersion: ">= `+b.Spec.MinKubeVersion) {
		t.Errorf("the chart is not for Kubernetes %s and newer (%v)", b.Spec.MinKubeVersion, err)
	}
	for what, is := range map[string]string{
		"displayName": b.Spec.DisplayName, "description": b.Spec.Description, "maturity": b.Spec.Maturity, "provider": b.Spec.Provider.Name,
		"categories": b.Metadata.Annotations["categories"], "short description": b.Metadata.Annotations["description"],
	} {
		if is == "" {
			t.Errorf("no %s", what)
		}
	}
	levels := regexp.MustCompile(`^(Basic Install|Seamless Upgrades|Full Lifecycle|Deep Insights|Auto Pilot)$`)
	if level := b.Metadata.Annotations["capabilities"]; !levels.MatchString(level) {
		t.Errorf("capabilities %q", level)
	}
	// A maintainer needs an address there, and the project has none: it is reached where its source is.
	if len(b.Spec.Maintainers) != 0 || len(b.Spec.Icon) != 1 || b.Spec.Provider.URL == "" || !strings.Contains(string(chart), "home: "+b.Spec.Provider.URL+"\n") {
		t.Errorf("maintainers %v, icon %v, provider %+v", b.Spec.Maintainers, b.Spec.Icon, b.Spec.Provider)
	}
	modes := map[string]bool{}
	for _, mode := range b.Spec.InstallModes {
		modes[mode.Type] = mode.Supported
	}
	// The operator looks after the clusters of all namespaces: nothing tells it of others.
	if len(modes) != 4 || !modes["AllNamespaces"] || modes["OwnNamespace"] || modes["SingleNamespace"] || modes["MultiNamespace"] {
		t.Errorf("install modes %v", modes)
	}
}

// The tests of operator-sdk's scorecard that look at a bundle: each definition is owned, has
// resources and descriptors, and an example whose fields are described.
func TestScorecard(t *testing.T) {
	b := readBundle(t)
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*owned{}
	for i := range b.Spec.Customresourcedefinitions.Owned {
		o := &b.Spec.Customresourcedefinitions.Owned[i]
		byKind[o.Kind] = o
		if o.DisplayName == "" || o.Description == "" || len(o.Resources) == 0 || len(o.SpecDescriptors) == 0 || len(o.StatusDescriptors) == 0 {
			t.Errorf("%s is not described as a whole", o.Kind)
		}
		for _, d := range append(o.SpecDescriptors, o.StatusDescriptors...) {
			if d.Path == "" || d.DisplayName == "" || d.Description == "" {
				t.Errorf("%s: %+v", o.Kind, d)
			}
		}
	}
	for i := range s.definitions {
		d := &s.definitions[i]
		if o := byKind[d.crd.Spec.Names.Kind]; o == nil || o.Name != d.crd.Name || o.Version != d.crd.Spec.Versions[0].Name {
			t.Errorf("%s is not owned: %+v", d.crd.Name, o)
		}
	}
	var examples []struct {
		Kind string
		Spec map[string]any
	}
	if err := json.Unmarshal([]byte(b.Metadata.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, e := range examples {
		shown[e.Kind] = true
		if len(e.Spec) == 0 {
			t.Errorf("the example of %s has no spec", e.Kind)
		}
		for field := range e.Spec {
			if o := byKind[e.Kind]; o == nil || !o.describes(field) {
				t.Errorf("%s of a %s is not described", field, e.Kind)
			}
		}
	}
	if len(shown) != len(byKind) || len(byKind) != len(s.definitions) {
		t.Errorf("%d kinds, %d owned, %d shown", len(s.definitions), len(byKind), len(shown))
	}
}

// The operator that is installed by the bundle is the one of operator/config.
func TestBundleInstalls(t *testing.T) {
	b := readBundle(t)
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	spec := &b.Spec.Install.Spec
	if b.Spec.Install.Strategy != "deployment" || len(spec.Deployments) != 1 || len(spec.ClusterPermissions) != 1 || len(spec.Permissions) != 1 {
		t.Fatalf("%+v", b.Spec.Install)
	}
	account := spec.Deployments[0].Spec.Template.Spec.ServiceAccountName
	if account == "" || spec.ClusterPermissions[0].ServiceAccountName != account || spec.Permissions[0].ServiceAccountName != account {
		t.Errorf("account %q", account)
	}
	if !equal(t, spec.ClusterPermissions[0].Rules, s.wide.Rules) || !equal(t, spec.Permissions[0].Rules, s.own.Rules) {
		t.Error("the rights are not those of role.yaml")
	}
	if !equal(t, spec.Deployments[0].Spec.Template.Spec.Containers, s.operator.Spec.Template.Spec.Containers) {
		t.Error("the container is not that of manager.yaml")
	}
	images := map[string]bool{}
	for _, image := range b.Spec.RelatedImages {
		images[image.Image] = true
	}
	for _, image := range []string{"tickmesh-operator:" + s.version, "tickmesh:" + s.version} {
		if !images[image] {
			t.Errorf("%s is no image of %v", image, images)
		}
	}
	if len(images) != 3 || b.Metadata.Annotations["containerImage"] != "tickmesh-operator:"+s.version {
		t.Errorf("images %v", images)
	}
}

func equal(t *testing.T, a, b any) bool {
	t.Helper()
	first, err := json.Marshal(a)
	second, failed := json.Marshal(b)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return string(first) == string(second)
}

// The folder and its image are what the labels say.
func TestBundleLabels(t *testing.T) {
	docker, err := os.ReadFile(filepath.Join(root, "operator/bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range bundleLabels() {
		if !strings.Contains(string(docker), "LABEL "+key+"="+value+"\n") {
			t.Errorf("the image has no label %s", key)
		}
		if dir, is := strings.CutSuffix(value, "/"); is {
			if _, err := os.Stat(filepath.Join(root, folderBundle, dir)); err != nil {
				t.Error(err)
			}
		}
	}
}
