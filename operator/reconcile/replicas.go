package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/objects"
)

// ReplicasOwner owns the number of routers from when it is to follow their load until the
// autoscaler sets it first.
const ReplicasOwner = objects.FieldOwner + "-replicas"

// keepReplicas keeps the number of routers where it is when it begins to follow their
// load. A field that is applied no more, and that nobody else owns, is taken away, and
// Kubernetes would make one router of it.
func (p *pass) keepReplicas(ctx context.Context) error {
	scaling := p.cluster.Spec.Routers.Autoscaling
	if scaling == nil {
		return nil
	}
	router := &appsv1.Deployment{}
	found, err := p.objects.FindLive(ctx, build.Name(p.cluster, build.ComponentRouter), router)
	if err != nil || !found || !p.objects.Owns(router) {
		return err
	}
	is := int32(1)
	if router.Spec.Replicas != nil {
		is = *router.Spec.Replicas
	}
	keep := min(max(is, scaling.Min), scaling.Max)
	if keep == is && !appliesReplicas(router.ManagedFields) {
		return nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(keep)}}}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	u.SetName(router.Name)
	u.SetNamespace(router.Namespace)
	u.SetResourceVersion(router.ResourceVersion) // not over what an autoscaler has set meanwhile
	if err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(ReplicasOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("keep %d routers: %w", keep, err)
	}
	return nil
}

// appliesReplicas reports whether the operator applies the number of replicas.
func appliesReplicas(managed []metav1.ManagedFieldsEntry) bool {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager != objects.FieldOwner || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil {
			continue // in a form that this operator does not know
		}
		if _, applies := fields.Spec["f:replicas"]; applies {
			return true
		}
	}
	return false
}
