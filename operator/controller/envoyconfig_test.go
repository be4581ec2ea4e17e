package controller_test

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// envoyConfigs returns the configurations of Envoy that there are, by name.
func (w *world) envoyConfigs() map[string]corev1.ConfigMap {
	w.t.Helper()
	var list corev1.ConfigMapList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: build.ComponentEnvoy}))
	configs := map[string]corev1.ConfigMap{}
	for i := range list.Items {
		configs[list.Items[i].Name] = list.Items[i]
	}
	return configs
}

// envoyConfig returns the name of the configuration that the Deployment of Envoy has.
func (w *world) envoyConfig() string {
	w.t.Helper()
	envoy := &appsv1.Deployment{}
	w.must(w.api.Get(w.t.Context(), w.key("demo-envoy"), envoy))
	return build.EnvoyConfig(&envoy.Spec.Template.Spec)
}

// Pods of Envoy have the configuration that they were made with for as long as they are there, also
// when another one is asked for; it goes with the last of them. Whoever goes back finds the same.
func TestEnvoyConfigRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	first := w.envoyConfig()
	before := w.envoyConfigs()[first]
	if len(w.envoyConfigs()) != 1 || before.Immutable == nil || !*before.Immutable {
		t.Fatalf("%v", w.envoyConfigs())
	}
	changed := before.DeepCopy()
	changed.Data["bootstrap.yaml"] = "{}"
	if err := w.api.Update(t.Context(), changed); !apierrors.IsInvalid(err) {
		t.Fatalf("it can be changed: %v", err)
	}
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "demo-envoy-of-before", Namespace: w.namespace, Labels: before.Labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "envoy", Image: "envoy:test"}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: first}},
		}}},
	}}
	w.must(w.api.Create(t.Context(), old))
	logs := func(on bool) { w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Envoy.AccessLog = on }) }
	logs(true)
	w.until("it has another configuration", func() bool { return w.envoyConfig() != first && w.complete() })
	second := w.envoyConfig()
	for range 5 {
		w.step()
	}
	if names := slices.Sorted(maps.Keys(w.envoyConfigs())); !slices.Contains(names, first) || !slices.Contains(names, second) {
		t.Fatalf("there are %v", names)
	}
	w.must(w.api.Delete(t.Context(), old, client.GracePeriodSeconds(0)))
	w.until("the one of before goes", func() bool { return len(w.envoyConfigs()) == 1 })
	logs(false)
	w.until("it goes back", func() bool { return w.envoyConfig() == first && len(w.envoyConfigs()) == 1 })
	if again := w.envoyConfigs()[first]; !maps.Equal(again.Data, before.Data) {
		t.Fatal("it is another one under the same name")
	}
	off := false
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Envoy.Enabled = &off })
	w.until("it goes with Envoy", func() bool { return len(w.envoyConfigs()) == 0 })
}
