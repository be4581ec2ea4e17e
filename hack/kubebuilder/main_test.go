package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// The files are what their sources say, and those that nothing makes any more are gone.
func TestFiles(t *testing.T) {
	made, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range made {
		known[f.path] = true
		is, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil || !bytes.Equal(is, f.content) {
			t.Errorf("%s is not what its sources say: go run ./hack/kubebuilder (%v)", f.path, err)
		}
	}
	for _, pattern := range []string{folderBundle + "/manifests/*", folderConfig + "/rbac/*_viewer_role.yaml", folderConfig + "/rbac/*_editor_role.yaml"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			if name, err := filepath.Rel(root, path); err != nil || !known[name] {
				t.Errorf("%s is of no source (%v)", name, err)
			}
		}
	}
}

// The chart's definitions and the operator's rights are those of operator/config.
func TestChartHasTheSame(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, folderConfig, "crd/bases/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	same := func(chart, config string, change func(string) string) {
		a, err := os.ReadFile(filepath.Join(root, folderChart, chart))
		b, failed := os.ReadFile(config)
		if err != nil || failed != nil || change(string(a)) != string(b) {
			t.Errorf("%s and %s differ: run hack/scripts/generate.sh (%v, %v)", chart, config, err, failed)
		}
	}
	for _, path := range paths {
		same("crds/"+filepath.Base(path), path, func(s string) string { return s })
	}
	same("files/role.yaml", filepath.Join(root, folderConfig, "rbac/role.yaml"), func(s string) string {
		return strings.NewReplacer("name: tickmesh-operator\n", "name: operator\n", "namespace: tickmesh-system", "namespace: system").Replace(s)
	})
}

// Each kustomization lists every file of its folder.
func TestKustomizationsAreComplete(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, folderConfig, "*/kustomization.yaml"))
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		var list struct{ Resources, Configurations []string }
		content, err := os.ReadFile(path)
		if err == nil {
			err = yaml.Unmarshal(content, &list)
		}
		if err != nil {
			t.Fatal(path, err)
		}
		dir := filepath.Dir(path)
		var is []string
		for _, pattern := range []string{"*.yaml", "bases/*.yaml"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if name, _ := filepath.Rel(dir, f); name != "kustomization.yaml" {
					is = append(is, name)
				}
			}
		}
		lists := slices.DeleteFunc(append(list.Resources, list.Configurations...), func(name string) bool { return strings.HasPrefix(name, "../") })
		slices.Sort(lists)
		slices.Sort(is)
		if !slices.Equal(lists, is) {
			t.Errorf("%s lists %v, and there are %v", path, lists, is)
		}
	}
}

// kubebuilder's command finds each kind in PROJECT, where it is.
func TestProject(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "operator/PROJECT"))
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Domain, ProjectName, Repo, Version string
		Layout                             []string
		Resources                          []struct {
			API struct {
				CRDVersion string `json:"crdVersion"`
				Namespaced bool   `json:"namespaced"`
			} `json:"api"`
			Controller                         bool
			Domain, Group, Kind, Path, Version string
		}
	}
	if err := yaml.UnmarshalStrict(content, &project); err != nil {
		t.Fatal(err)
	}
	if project.Version != "3" || project.Domain != "dev" || project.Repo != "github.com/tickmesh/tickmesh" || !slices.Equal(project.Layout, []string{"go.kubebuilder.io/v4"}) {
		t.Errorf("%+v", project)
	}
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	var known, listed []string
	for i := range s.definitions {
		crd := s.definitions[i].crd.Spec
		known = append(known, crd.Group+"/"+crd.Versions[0].Name+" "+crd.Names.Kind)
	}
	for _, r := range project.Resources {
		listed = append(listed, r.Group+"."+r.Domain+"/"+r.Version+" "+r.Kind)
		if r.Path != project.Repo+"/api/v1alpha1" || !r.Controller || !r.API.Namespaced || r.API.CRDVersion != "v1" {
			t.Errorf("%+v", r)
		}
	}
	slices.Sort(known)
	slices.Sort(listed)
	if !slices.Equal(known, listed) {
		t.Errorf("PROJECT has %v, the definitions are %v", listed, known)
	}
}
