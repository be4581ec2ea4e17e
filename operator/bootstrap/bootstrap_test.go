package bootstrap

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// restore returns a restore with a condition that is true; empty: it runs.
func restore(kind string) *v1alpha1.TickMeshRestore {
	r := &v1alpha1.TickMeshRestore{}
	for _, is := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed} {
		status := metav1.ConditionFalse
		if is == kind {
			status = metav1.ConditionTrue
		}
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: is, Status: status, Reason: "x", Message: "42 samples"})
	}
	return r
}

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *Facts)
		want   v1alpha1.BootstrapPhase
		create bool
		text   string
	}{
		"nothing is asked for":       {func(f *Facts) { *f = Facts{Fresh: true, Serves: true} }, "", false, ""},
		"it is new":                  {func(*Facts) {}, v1alpha1.BootstrapPending, false, "when all shards"},
		"it has volumes":             {func(f *Facts) { f.Fresh = false }, v1alpha1.BootstrapSkipped, false, "before"},
		"it has volumes, and serves": {func(f *Facts) { f.Fresh, f.Serves = false, true }, v1alpha1.BootstrapSkipped, false, "before"},
		"nodes start":                {func(f *Facts) { f.Phase, f.Fresh = v1alpha1.BootstrapPending, false }, v1alpha1.BootstrapPending, false, "when all shards"},
		"it serves":                  {func(f *Facts) { f.Phase, f.Serves = v1alpha1.BootstrapPending, true }, v1alpha1.BootstrapRestoring, true, "is made"},
		"the restore is there": {func(f *Facts) {
			f.Phase, f.Serves, f.Restore = v1alpha1.BootstrapPending, true, &v1alpha1.TickMeshRestore{}
		}, v1alpha1.BootstrapRestoring, false, "begins"},
		"it runs": {func(f *Facts) { f.Phase, f.Restore = v1alpha1.BootstrapRestoring, restore("") }, v1alpha1.BootstrapRestoring, false, "demo-bootstrap: 42"},
		"it waits for the backup": {func(f *Facts) {
			f.Phase, f.Restore = v1alpha1.BootstrapRestoring, restore("")
			f.Restore.Status.Phase = v1alpha1.JobPhasePending
		}, v1alpha1.BootstrapRestoring, false, "bootstrap=skip"},
		"it is complete":          {func(f *Facts) { f.Phase, f.Restore = v1alpha1.BootstrapRestoring, restore(v1alpha1.ConditionComplete) }, v1alpha1.BootstrapComplete, false, "42 samples"},
		"it failed":               {func(f *Facts) { f.Phase, f.Restore = v1alpha1.BootstrapRestoring, restore(v1alpha1.ConditionFailed) }, v1alpha1.BootstrapFailed, false, "delete it"},
		"a person has deleted it": {func(f *Facts) { f.Phase, f.Serves = v1alpha1.BootstrapFailed, true }, v1alpha1.BootstrapRestoring, true, "is made"},
		"a person does not want it": {func(f *Facts) {
			f.Phase, f.Restore, f.Skipped = v1alpha1.BootstrapFailed, restore(v1alpha1.ConditionFailed), true
		}, v1alpha1.BootstrapSkipped, false, "annotation"},
		"it was complete, and is gone":   {func(f *Facts) { f.Phase, f.Serves, f.Fresh = v1alpha1.BootstrapComplete, true, true }, v1alpha1.BootstrapComplete, false, "was restored"},
		"it runs, and nobody can say":    {func(f *Facts) { f.Phase, f.Unknown = v1alpha1.BootstrapRestoring, errors.New("away") }, v1alpha1.BootstrapRestoring, false, "away"},
		"it failed, and nobody can say":  {func(f *Facts) { f.Phase, f.Serves, f.Unknown = v1alpha1.BootstrapFailed, true, errors.New("away") }, v1alpha1.BootstrapFailed, false, "away"},
		"it is new, and nobody can say":  {func(f *Facts) { f.Serves, f.Unknown = true, errors.New("away") }, v1alpha1.BootstrapPending, false, "away"},
		"it was skipped, and serves now": {func(f *Facts) { f.Phase, f.Serves = v1alpha1.BootstrapSkipped, true }, v1alpha1.BootstrapSkipped, false, "not restored"},
		"its status was lost":            {func(f *Facts) { f.Fresh, f.Serves = false, true }, v1alpha1.BootstrapSkipped, false, "before"},
	} {
		f := Facts{Asked: true, Fresh: true, Name: "demo-bootstrap"}
		test.change(&f)
		p := Decide(f)
		if p.Phase != test.want || p.Create != test.create || !strings.Contains(p.Message, test.text) {
			t.Errorf("%s: %+v", name, p)
		}
		over := p.Phase == "" || p.Phase == v1alpha1.BootstrapComplete || p.Phase == v1alpha1.BootstrapSkipped
		if p.Closed() == over {
			t.Errorf("%s: clients are kept out: %v", name, p.Closed())
		}
	}
}
