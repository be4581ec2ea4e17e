package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tickmesh/tickmesh/charts"
)

// The command makes the definitions, and brings back those that have become others. It
// needs no more rights than the chart gives its Job.
func TestApplyDefinitions(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)")
	}
	server := &envtest.Environment{}
	admin, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	all, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../charts/tickmesh/crds/*.yaml")
	if definitions, failed := charts.Definitions(); err != nil || failed != nil || len(definitions) != len(files) || len(files) == 0 {
		t.Fatalf("%d definitions of %d files, %v, %v", len(definitions), len(files), failed, err)
	}
	job, err := client.New(asJob(t, admin, all), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func() map[string]int64 {
		t.Helper()
		now := map[string]int64{}
		if err := applyDefinitions(t.Context(), job, func(name string) {
			crd := definition(name)
			if err := all.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
				t.Fatal(err)
			}
			now[name] = crd.GetGeneration()
		}); err != nil {
			t.Fatal(err)
		}
		return now
	}
	generations := apply()
	if again := apply(); len(again) != len(files) || !maps.Equal(again, generations) {
		t.Errorf("applied again: %v, %v", generations, again)
	}
	const name = "tickmeshclusters.tickmesh.dev"
	old := definition(name)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"names":{"shortNames":["old"]}}}`))
	if err := all.Patch(t.Context(), old, patch, client.FieldOwner("helm")); err != nil {
		t.Fatal(err)
	}
	apply()
	if err := all.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	if short, _, _ := unstructured.NestedStringSlice(old.Object, "spec", "names", "shortNames"); !slices.Equal(short, []string{"tmc"}) {
		t.Errorf("short names %v", short)
	}
}

func definition(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apiextensions.k8s.io/v1")
	u.SetKind("CustomResourceDefinition")
	u.SetName(name)
	return u
}

// asJob returns the access of an account with the rights of the chart's Job.
func asJob(t *testing.T, admin *rest.Config, api client.Client) *rest.Config {
	t.Helper()
	var names []string
	for _, kind := range []string{"tickmeshbackups", "tickmeshbackupschedules", "tickmeshclusters", "tickmeshrestores"} {
		names = append(names, kind+".tickmesh.dev")
	}
	crds := func(verbs, names []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: names, Verbs: verbs}
	}
	meta := metav1.ObjectMeta{Name: "definitions"}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{crds([]string{"create"}, nil), crds([]string{"get", "patch"}, names)}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: corev1.NamespaceDefault, Name: meta.Name}},
		},
	} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:definitions"}
	return config
}
