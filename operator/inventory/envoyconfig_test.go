package inventory_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/operator/inventory"
)

// A configuration of Envoy goes when no pod has it and none is to get it.
func TestUnusedEnvoyConfigs(t *testing.T) {
	deployment := func(config string, replicas, updated int32) *appsv1.Deployment {
		d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: updated}}
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}},
		}}}
		return d
	}
	for name, c := range map[string]struct {
		envoy *appsv1.Deployment
		used  []string
		want  string
		gone  []string
	}{
		"rolled out":                             {deployment("c", 2, 2), []string{"c"}, "c", []string{"a", "b"}},
		"a pod of before ends":                   {deployment("c", 2, 2), []string{"c", "b"}, "c", []string{"a"}},
		"pods are made anew":                     {deployment("c", 2, 1), []string{"c"}, "c", nil},
		"the Deployment has not got it yet":      {deployment("b", 2, 2), []string{"b"}, "c", []string{"a"}},
		"without pods, as the cluster sleeps":    {deployment("b", 0, 0), nil, "b", []string{"a", "c"}},
		"Envoy is not wanted, and its pods end":  {nil, []string{"c"}, "", []string{"a", "b"}},
		"Envoy is not wanted, and its pods have": {nil, nil, "", []string{"a", "b", "c"}},
	} {
		v := &inventory.Inventory{Envoy: c.envoy, EnvoyConfigsUsed: map[string]bool{}}
		for _, name := range []string{"a", "b", "c"} {
			v.EnvoyConfigs = append(v.EnvoyConfigs, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		for _, name := range c.used {
			v.EnvoyConfigsUsed[name] = true
		}
		var gone []string
		for _, config := range v.UnusedEnvoyConfigs(c.want) {
			gone = append(gone, config.Name)
		}
		if !slices.Equal(gone, c.gone) {
			t.Errorf("%s: %v are removed, should be %v", name, gone, c.gone)
		}
	}
}
