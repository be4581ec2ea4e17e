package build

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// BootstrapRestoreName returns the name of the restore that a new cluster begins with.
func BootstrapRestoreName(c *v1alpha1.TickMeshCluster) string { return c.Name + "-bootstrap" }

// BootstrapRestore makes the restore that a new cluster begins with, as spec.bootstrap says.
func BootstrapRestore(c *v1alpha1.TickMeshCluster) *v1alpha1.TickMeshRestore {
	return &v1alpha1.TickMeshRestore{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindRestore},
		ObjectMeta: meta(c, ComponentBackup, BootstrapRestoreName(c)),
		Spec: v1alpha1.TickMeshRestoreSpec{
			ClusterRef: v1alpha1.ClusterReference{Name: c.Name}, Source: *c.Spec.Bootstrap.FromBackup.DeepCopy(), Verify: c.Spec.Bootstrap.Verify,
		},
	}
}
