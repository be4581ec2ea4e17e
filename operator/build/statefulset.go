package build

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// revisionsMax is how many old templates Kubernetes remembers.
const revisionsMax = 5

// claimTemplate makes a claim template: as it is asked for, unless there is one.
func claimTemplate(labels map[string]string, volume v1alpha1.VolumeSpec, size resource.Quantity, had *ClaimTemplate) corev1.PersistentVolumeClaim {
	is := ClaimTemplate{size, volume.StorageClassName, volume.StorageClassName}
	if had != nil {
		is = *had
	}
	m := metav1.ObjectMeta{Name: volumeData, Labels: labels}
	if is.Class != nil {
		m.Annotations = map[string]string{annotationStorageClass: *is.Class}
	}
	return corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: m,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: is.StorageClassName,
			VolumeMode: ptr(corev1.PersistentVolumeFilesystem),
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: is.Size}},
		},
	}
}

func statefulSet(c *v1alpha1.TickMeshCluster, f Facts, p pod, count int32, claims corev1.PersistentVolumeClaim) *appsv1.StatefulSet {
	m := meta(c, p.component, p.setName(c))
	m.Labels = p.allLabels(c)
	told := replicas(f, p.component, count, &m)
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: m,
		Spec: appsv1.StatefulSetSpec{
			Replicas: told, ServiceName: Name(c, p.component), Selector: &metav1.LabelSelector{MatchLabels: p.selector(c)},
			PodManagementPolicy: appsv1.ParallelPodManagement, RevisionHistoryLimit: ptr(int32(revisionsMax)),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			// The operator deletes claims, when nothing names their data any more.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template:             p.template(c, f),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claims},
		},
	}
}
