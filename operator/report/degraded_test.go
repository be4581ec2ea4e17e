package report

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// TestNodeTakesNoWrites: a node that takes no writes is told of until a router says that it does, and not only until none answers.
func TestNodeTakesNoWrites(t *testing.T) {
	f := &Facts{Cluster: &v1alpha1.TickMeshCluster{}}
	judge := func(want metav1.ConditionStatus, reason string) {
		t.Helper()
		v := f.degraded()
		if v.status != want || v.reason != reason {
			t.Fatalf("%+v", v)
		}
		f.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: v.status, Reason: v.reason, Message: v.message}}
	}
	takes := func(refusal string) *meshclient.Status {
		return &meshclient.Status{Nodes: []meshclient.Node{{Node: "demo-node-0", Refusal: refusal}}}
	}
	lost := errors.New("no router")
	f.Nodes.StatusErr = lost
	judge(metav1.ConditionFalse, reasonAsExpected)
	f.Nodes.Status, f.Nodes.StatusErr = takes("no room"), nil
	judge(metav1.ConditionTrue, reasonNoWrites)
	for range 3 {
		f.Nodes.Status, f.Nodes.StatusErr = nil, lost
		judge(metav1.ConditionTrue, reasonNoWrites)
	}
	if message := f.Cluster.Status.Conditions[0].Message; strings.Count(message, "no room") != 1 {
		t.Errorf("%q", message)
	}
	f.Nodes.Status, f.Nodes.StatusErr = takes(""), nil
	judge(metav1.ConditionFalse, reasonAsExpected)
}
