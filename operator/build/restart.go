package build

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// annotationRestarted of a pod template has what a person has written to have its pods restarted.
const annotationRestarted = v1alpha1.Group + "/restarted"

// restartWordMax is how long that is before a digest stands for it.
const restartWordMax = 128

// Restartable returns the components of a cluster whose pods can be restarted, in the order in which
// they are.
func Restartable(c *v1alpha1.TickMeshCluster) []string {
	return slices.DeleteFunc(components(c), func(component string) bool { return component == ComponentBackup })
}

// RestartedFor returns what a pod, or those of a template, were restarted for last; empty: for
// nothing.
func RestartedFor(of *metav1.ObjectMeta) string { return of.Annotations[annotationRestarted] }

// SetRestartedFor has the pods of a template restarted for a word; empty: for nothing.
func SetRestartedFor(template *corev1.PodTemplateSpec, word string) {
	if word == "" {
		delete(template.Annotations, annotationRestarted)
		return
	}
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotationRestarted, word)
}

// withRestart returns the pod as one that differs from those that are to be restarted. An annotation
// of the cluster that was taken away asks for nothing: what it had stays.
func (p pod) withRestart(c *v1alpha1.TickMeshCluster, f Facts) pod {
	if !slices.Contains(Restartable(c), p.component) {
		return p
	}
	word := c.Annotations[v1alpha1.AnnotationRestart+p.component]
	switch {
	case word == "":
		word = f.Restarted[p.component]
	case len(word) > restartWordMax:
		sum := sha256.Sum256([]byte(word))
		word = hex.EncodeToString(sum[:])
	}
	if word == "" {
		return p
	}
	annotations := maps.Clone(p.annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationRestarted] = word
	p.annotations = annotations
	return p
}
