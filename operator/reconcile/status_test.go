package reconcile

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
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
		change     func(*pass)
		busy       bool
	}{
		"new":         {nil, nil, true},
		"quiet":       {[]metav1.Condition{available, complete}, nil, false},
		"no router":   {[]metav1.Condition{condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse), complete}, nil, true},
		"progressing": {[]metav1.Condition{available, condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue)}, nil, true},
		"no etcd":     {[]metav1.Condition{available, complete}, func(p *pass) { p.nodes.viewErr = errors.New("lost") }, true},
		"moving":      {[]metav1.Condition{available, complete}, func(p *pass) { p.cluster.Status.ShardsMoving = 1 }, true},
	} {
		p := &pass{cluster: &v1alpha1.TickMeshCluster{Status: v1alpha1.TickMeshClusterStatus{Conditions: test.conditions}}}
		if test.change != nil {
			test.change(p)
		}
		if p.busy() != test.busy {
			t.Errorf("%s: busy is %v", name, !test.busy)
		}
	}
}
