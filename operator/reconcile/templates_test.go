package reconcile

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

// nodeSet returns a StatefulSet of nodes with an image.
func nodeSet(image string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{build.LabelComponent: build.ComponentNode}}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	return set
}

// Nodes serve while most of them do: one that is not ready does not let a new template skip
// its turn. When half of them or more are not, the new template may be what mends them.
func TestServingNodes(t *testing.T) {
	for _, test := range []struct {
		ready, unready int
		want           bool
	}{{3, 0, true}, {2, 1, true}, {1, 2, false}, {0, 3, false}, {1, 0, true}, {0, 1, false}, {1, 1, true}, {2, 2, true}} {
		seen := &inventory.Inventory{NodeGroups: []*inventory.NodeGroup{{Set: nodeSet("old"), Pods: map[int]*corev1.Pod{}}}, Machines: map[string]*corev1.Node{"m": {Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}}}
		for ordinal := range test.ready + test.unready {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "m"}}
			if ordinal < test.ready {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			seen.NodeGroups[0].Pods[ordinal] = pod
		}
		wanted, _ := workloadOf(nodeSet("new"))
		is, err := (&templates{seen: seen, pressing: func(string) bool { return false }}).component(wanted, true)
		if err != nil || is.Serving != test.want || is.Ready != (test.unready == 0) {
			t.Errorf("%d ready, %d not: %+v, %v", test.ready, test.unready, is, err)
		}
	}
}

// A new operator changes what pods of an image of the user's make their keys with only when their
// template changes anyway.
func TestCertificateImage(t *testing.T) {
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	c.Spec.Image, c.Spec.TLS.Mode, c.Spec.Etcd.Managed = "mine:1", v1alpha1.TLSModeOperator, &v1alpha1.ManagedEtcd{}
	old := build.Facts{Image: "tickmesh:1", CertificateImage: "tickmesh:1", NodeReplicas: 1, EtcdEndpoints: 1}
	present := build.NodeStatefulSet(c, old, "")
	if err := (&templates{seen: &inventory.Inventory{}}).stamp(present); err != nil {
		t.Fatal(err)
	}
	released := old
	released.Image, released.CertificateImage = "tickmesh:2", ""
	if image := certificateImage(c, present, released); image != "tickmesh:1" {
		t.Errorf("%s: nodes are restarted for it", image)
	}
	c.Spec.Retention = "90d"
	if image := certificateImage(c, present, released); image != "tickmesh:2" {
		t.Errorf("%s though nodes are restarted", image)
	}
	if image := certificateImage(c, nil, released); image != "tickmesh:2" {
		t.Errorf("%s in a new cluster", image)
	}
}
