package ownership

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// ForeignError is the error for an object that has the name of one of the cluster's objects and
// does not belong to the cluster.
type ForeignError struct {
	Kind, Name string
	Owner      string // empty: it has no controller
	remedy     string
}

func (e *ForeignError) Error() string {
	owner := "and does not belong to this cluster"
	if e.Owner != "" {
		owner = "and belongs to " + e.Owner
	}
	return fmt.Sprintf("%s %s exists %s, so it is left alone: %s", e.Kind, e.Name, owner, e.remedy)
}

// CheckObject returns a *ForeignError if an object that exists does not belong to the cluster.
//
// An object belongs to the cluster if the cluster is its controller, or if it has no controller
// and the labels of the cluster, as after a deletion with --cascade=orphan, or when a person
// hands an object over. An object whose controller was an earlier cluster of the same name does
// not: Kubernetes is about to delete it.
func CheckObject(c *v1alpha1.TickMeshCluster, kind string, present metav1.Object) error {
	foreign := &ForeignError{Kind: kind, Name: present.GetName()}
	owner := metav1.GetControllerOfNoCopy(present)
	labels := present.GetLabels()
	switch {
	case owner != nil && owner.UID == c.UID:
		return nil
	case owner != nil && owner.Kind == v1alpha1.KindCluster && owner.Name == c.Name:
		foreign.Owner = "an earlier cluster of this name"
		foreign.remedy = "Kubernetes deletes it, and then it is made anew"
	case owner != nil:
		foreign.Owner = owner.Kind + " " + owner.Name
		foreign.remedy = "give the cluster another name, or delete " + foreign.Owner
	case labels[build.LabelManagedBy] == build.Labels(c, "")[build.LabelManagedBy] && labels[build.LabelCluster] == c.Name:
		return nil
	default:
		foreign.remedy = fmt.Sprintf("delete it, give the cluster another name, or hand it over with `kubectl --namespace=%s label %s/%s %s=%s %s=%s`", c.Namespace, kind, present.GetName(),
			build.LabelManagedBy, build.Labels(c, "")[build.LabelManagedBy], build.LabelCluster, c.Name)
	}
	return foreign
}
