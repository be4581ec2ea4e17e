package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Scheme returns the kinds that the operator knows. Errors: a kind that is there twice.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// CacheOptions limit what the operator keeps in memory to its own objects, machines
// without what is not looked at, and the namespaces that it looks after; none: all.
func CacheOptions(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{
		build.LabelManagedBy: build.Labels(&v1alpha1.TickMeshCluster{}, "")[build.LabelManagedBy],
	})}
	o := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}: ours, &appsv1.StatefulSet{}: ours, &appsv1.Deployment{}: ours, &corev1.Service{}: ours, &corev1.ConfigMap{}: ours,
			&corev1.Secret{}: ours, &corev1.Pod{}: ours, &corev1.PersistentVolumeClaim{}: ours,
			&policyv1.PodDisruptionBudget{}: ours, &networkingv1.NetworkPolicy{}: ours, &autoscalingv2.HorizontalPodAutoscaler{}: ours,
			&corev1.Node{}: {Transform: stripMachine},
		},
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			o.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return o
}

// stripMachine drops lists of images and volumes, which are long.
func stripMachine(object any) (any, error) {
	if machine, ok := object.(*corev1.Node); ok {
		machine.ManagedFields, machine.Status.Images = nil, nil
		machine.Status.VolumesAttached, machine.Status.VolumesInUse = nil, nil
	}
	return object, nil
}
