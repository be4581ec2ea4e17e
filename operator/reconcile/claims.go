package reconcile

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// mark is the value of an annotation that says yes; "" takes it away.
func mark(set bool) string {
	if set {
		return "true"
	}
	return ""
}

// replaceAfterMs is how long a machine says nothing before it is lost.
func replaceAfterMs(c *v1alpha1.TickMeshCluster) int64 {
	after, err := c.Spec.ReplaceAfter.Parse()
	if err != nil || after <= 0 {
		return shardmap.ReplaceAfterMsDefault // the schema lets nothing else in
	}
	return after.Milliseconds()
}

// Annotations of claims.
const (
	annotationEtcdMember = v1alpha1.Group + "/etcd-member" // id of the member whose data is on it, hexadecimal
	// annotationMachineMissing has since when the only machine of the volume does not exist, in
	// Unix milliseconds.
	annotationMachineMissing = v1alpha1.Group + "/machine-missing-since"
	annotationGivenUp        = v1alpha1.Group + "/given-up" // its node or member is being given up
)
