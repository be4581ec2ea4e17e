package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/objects"
)

// volumes are the volume claims of a cluster, which may be asked to be larger.
type volumes struct {
	cluster *v1alpha1.TickMeshCluster
	seen    *inventory.Inventory
	objects *objects.Client
	tell    notify

	refused []string // why volumes do not get the size that is asked for
}

// keep grows claims to the size that is asked for.
func (v *volumes) keep(ctx context.Context) error {
	var failed []error
	for _, g := range v.seen.NodeGroups {
		if asked, ok := v.cluster.Spec.NodesOf(g.Name); ok {
			failed = append(failed, v.growClaims(ctx, storageField(v.cluster, g.Name), g.Claims, asked.Storage.Size))
		}
	}
	if v.cluster.Spec.Etcd.Managed != nil {
		failed = append(failed, v.growClaims(ctx, "etcd.managed.storage", v.seen.EtcdClaims, v.cluster.Spec.Etcd.Managed.Storage.Size))
	}
	return errors.Join(failed...)
}

// growClaims lets the claims of a component grow, where their storage class lets them.
// What does not grow is told in a condition: to ask all the same would fail for ever.
func (v *volumes) growClaims(ctx context.Context, field string, claims map[int]*corev1.PersistentVolumeClaim, size resource.Quantity) error {
	var failed []error
	fixed := map[string][]string{} // names of claims by class
	for _, ordinal := range slices.Sorted(maps.Keys(claims)) {
		claim := claims[ordinal]
		if claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || size.Cmp(sizeOf(claim)) <= 0 {
			continue
		}
		class := ""
		if claim.Spec.StorageClassName != nil {
			class = *claim.Spec.StorageClassName
		}
		expands, err := v.expands(ctx, class)
		switch {
		case err != nil:
			failed = append(failed, err)
		case expands:
			failed = append(failed, v.growClaim(ctx, claim, size))
		default:
			fixed[class] = append(fixed[class], claim.Name)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(fixed)) {
		v.refused = append(v.refused, fmt.Sprintf(
			"spec.%s.size asks for %s, and storage class %q does not let volumes grow (allowVolumeExpansion), so these stay as they are: %s; set the size back to that of the volumes, let the class grow them, or move the data to a cluster with another class",
			field, size.String(), class, strings.Join(fixed[class], ", ")))
	}
	return errors.Join(failed...)
}

func sizeOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// expands reports whether a storage class lets volumes grow. One that is not there does not.
func (v *volumes) expands(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	class := &storagev1.StorageClass{}
	err := v.objects.Live.Get(ctx, types.NamespacedName{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at storage class %s: %w", name, err)
	}
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, nil
}

func (v *volumes) growClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	asked := sizeOf(claim)
	changed := claim.DeepCopy()
	changed.Spec.Resources.Requests[corev1.ResourceStorage] = size
	if err := v.objects.Cached.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("grow volume claim %s from %s to %s: %w", claim.Name, asked.String(), size.String(), err)
	}
	v.tell(corev1.EventTypeNormal, "VolumeGrows", "volume claim %s grows from %s to %s", claim.Name, asked.String(), size.String())
	return nil
}
