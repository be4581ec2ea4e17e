package report

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

// A cluster is looked at again before long while it is not as it should be: also when all
// is done and only its routers do not answer yet.
func TestBusy(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status}
	}
	available, complete := condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue), condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		change     func(*v1alpha1.TickMeshCluster, *Nodes)
		busy       bool
	}{
		"new":         {nil, nil, true},
		"quiet":       {[]metav1.Condition{available, complete}, nil, false},
		"no router":   {[]metav1.Condition{condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse), complete}, nil, true},
		"progressing": {[]metav1.Condition{available, condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue)}, nil, true},
		"no etcd":     {[]metav1.Condition{available, complete}, func(_ *v1alpha1.TickMeshCluster, n *Nodes) { n.ViewErr = errors.New("lost") }, true},
		"moving":      {[]metav1.Condition{available, complete}, func(c *v1alpha1.TickMeshCluster, _ *Nodes) { c.Status.ShardsMoving = 1 }, true},
	} {
		c, nodes := &v1alpha1.TickMeshCluster{Status: v1alpha1.TickMeshClusterStatus{Conditions: test.conditions}}, &Nodes{}
		if test.change != nil {
			test.change(c, nodes)
		}
		if Busy(c, nodes) != test.busy {
			t.Errorf("%s: busy is %v", name, !test.busy)
		}
	}
}

// TestNodesIdentified: a cluster whose nodes can call as each other says so, and why.
func TestNodesIdentified(t *testing.T) {
	for _, test := range []struct {
		mode  v1alpha1.TLSMode
		share bool // of nodes that keep their keys
		want  metav1.ConditionStatus
		why   string
	}{
		{v1alpha1.TLSModeOff, false, metav1.ConditionFalse, reasonTLSOff},
		{v1alpha1.TLSModeCertManager, false, metav1.ConditionFalse, reasonShared},
		{v1alpha1.TLSModeSecrets, false, metav1.ConditionFalse, reasonShared},
		{v1alpha1.TLSModeOperator, true, metav1.ConditionFalse, reasonShared}, // an upgrade
		{v1alpha1.TLSModeOperator, false, metav1.ConditionTrue, reasonOwn},
	} {
		f := Facts{Cluster: &v1alpha1.TickMeshCluster{}, Certificates: Certificates{NodesShare: test.share}}
		f.Cluster.Spec.TLS.Mode, f.Cluster.Spec.TLS.SecretNames = test.mode, &v1alpha1.TLSSecretNames{Node: "a"}
		if v := f.nodesIdentified(); v.status != test.want || v.reason != test.why {
			t.Errorf("%s: %+v", test.mode, v)
		}
	}
}

// Ready is what Available and Progressing say together.
func TestReady(t *testing.T) {
	serving, complete := yes(reasonServing, "all"), no(reasonComplete, "as spec asks for")
	for _, test := range []struct {
		available, progressing verdict
		want                   metav1.ConditionStatus
		why                    string
	}{
		{serving, complete, metav1.ConditionTrue, reasonComplete},
		{no(reasonNoLeader, "2 of 6"), complete, metav1.ConditionFalse, reasonNoLeader},
		{serving, yes(reasonStarting, "2 of 3"), metav1.ConditionFalse, reasonStarting},
		{serving, no(reasonVersionRefused, "downgrade"), metav1.ConditionFalse, reasonVersionRefused},
		{serving, no(reasonPaused, "paused"), metav1.ConditionFalse, reasonPaused},
		{serving, verdict{metav1.ConditionUnknown, reasonUnknown, "nobody answers"}, metav1.ConditionFalse, reasonUnknown},
		{no(reasonNoRouter, "none"), yes(reasonStarting, "the routers"), metav1.ConditionFalse, reasonNoRouter},
	} {
		if v := ready(test.available, test.progressing); v.status != test.want || v.reason != test.why {
			t.Errorf("%+v: %+v", test, v)
		}
	}
	conditions := []metav1.Condition{}
	changed := setConditions(&conditions, map[string]verdict{v1alpha1.ConditionReady: yes(reasonComplete, "")}, 1, metav1.Time{})
	for _, event := range Events(conditions, changed) {
		if event.Reason == reasonComplete {
			t.Error("an event repeats the others")
		}
	}
}

// TestProgressingUntilEnvoyIsMadeAnew: what waits for an upgrade to be over waits for the last component, too.
func TestProgressingUntilEnvoyIsMadeAnew(t *testing.T) {
	deployment := func(updated int32) *appsv1.Deployment {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: updated, ReadyReplicas: 2}}
	}
	f := Facts{Cluster: &v1alpha1.TickMeshCluster{}, Seen: &inventory.Inventory{Router: deployment(3), Envoy: deployment(1)}}
	if v := f.progressing(); v.status != metav1.ConditionTrue || v.reason != reasonStarting || v.message != "pods of Envoy are made anew" {
		t.Errorf("while it is: %+v", v)
	}
	f.Seen.Envoy = deployment(3)
	if v := f.progressing(); v.reason == reasonStarting {
		t.Errorf("when it is: %+v", v)
	}
	f.Seen.Envoy = nil // not wanted
	if v := f.progressing(); v.reason == reasonStarting {
		t.Errorf("without: %+v", v)
	}
}
