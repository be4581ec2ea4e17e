package build

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// annotationAwakeReplicas of a StatefulSet or Deployment that is stopped has how many pods it has
// when it is not.
const annotationAwakeReplicas = v1alpha1.Group + "/awake-replicas"

// replicas returns how many pods a component is to be told to have now: none, and a note of how
// many, if it is stopped.
func replicas(f Facts, component string, awake int32, m *metav1.ObjectMeta) *int32 {
	if !f.Stopped[component] {
		return &awake
	}
	metav1.SetMetaDataAnnotation(m, annotationAwakeReplicas, strconv.Itoa(int(awake)))
	return new(int32)
}

// AwakeReplicas returns how many pods a component that is stopped has when it is not, and false if
// it is not stopped. What cannot be read was written by somebody else, and stops nothing.
func AwakeReplicas(m *metav1.ObjectMeta) (int, bool) {
	n, err := strconv.ParseUint(m.Annotations[annotationAwakeReplicas], 10, 31)
	return int(n), err == nil
}
