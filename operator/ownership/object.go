package ownership

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// ForeignError is about an object that has a name of a cluster's and belongs to somebody else.
type ForeignError struct {
	Kind, Name string
	Owner      string // empty: it names none
	remedy     string
}

func (e *ForeignError) Error() string {
	owner := "and does not belong to this cluster"
	if e.Owner != "" {
		owner = "and belongs to " + e.Owner
	}
	return fmt.Sprintf("%s %s exists %s, so it is left alone: %s", e.Kind, e.Name, owner, e.remedy)
}

// CheckObject returns a *ForeignError for an object that is there and not the cluster's.
//
// An object is the cluster's if the cluster is its controller, or if it has no controller and
// the labels of the cluster: that is what a deletion with --cascade=orphan leaves, and
// what a person writes to hand an object over. One whose controller was an earlier cluster
// of the same name is not: Kubernetes is about to delete it.
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
