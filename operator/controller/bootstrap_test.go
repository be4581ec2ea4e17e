package controller_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const bootstrapping = "{shards: 6, replication: 2, nodes: {count: 3}, bootstrap: {fromBackup: {backupName: monday}, verify: true}}"

// restore returns the restore of the cluster; nil: there is none.
func (w *world) restore() *v1alpha1.TickMeshRestore {
	w.t.Helper()
	r := &v1alpha1.TickMeshRestore{}
	if !w.found(w.api.Get(w.t.Context(), w.key("demo-bootstrap"), r)) {
		return nil
	}
	return r
}

// ends lets the restore end.
func (w *world) endRestore(kind string) {
	w.t.Helper()
	r := w.restore()
	r.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "x", Message: "42 samples", LastTransitionTime: metav1.NewTime(w.now)}}
	w.must(w.api.Status().Update(w.t.Context(), r))
}

// open reports whether the Service for clients leads to pods.
func (w *world) open() bool {
	w.t.Helper()
	door := &corev1.Service{}
	w.must(w.api.Get(w.t.Context(), w.key(clusterName), door))
	return door.Spec.Selector["tickmesh.dev/door"] == ""
}

// A new cluster is filled from a backup once, before clients are let in, whatever kills the operator
// meanwhile; a restore that failed is made again when it is deleted.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(bootstrapping)
	for writes := 1; w.restore() == nil; writes++ {
		w.newOperator(writes) // and it dies
		w.step()
		if writes > stepsMax {
			t.Fatalf("no restore is made: %+v", w.cluster().Status)
		}
	}
	w.newOperator(0)
	if r := w.restore(); r.Spec.Source.BackupName != "monday" || !r.Spec.Verify || r.Spec.ClusterRef.Name != clusterName || !metav1.IsControlledBy(r, w.cluster()) {
		t.Fatalf("%+v", r)
	}
	bootstrapped := func() metav1.Condition { return w.condition(v1alpha1.ConditionBootstrapped) }
	w.until("it is restored", func() bool { return bootstrapped().Reason == "BootstrapRestoring" })
	if ready := w.condition(v1alpha1.ConditionReady); w.open() || ready.Status != metav1.ConditionFalse {
		t.Fatalf("clients are let in: %+v", ready)
	}
	w.endRestore(v1alpha1.ConditionFailed)
	w.until("it has failed", func() bool { return bootstrapped().Reason == "BootstrapFailed" })
	if c := w.condition(v1alpha1.ConditionProgressing); w.open() || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "delete it to have it made again") {
		t.Fatalf("%+v", c)
	}
	w.must(w.api.Delete(t.Context(), w.restore()))
	w.until("it is made again", func() bool { return w.restore() != nil })
	w.endRestore(v1alpha1.ConditionComplete)
	w.until("clients are let in", func() bool { return w.open() && w.complete() })
	if c, s := bootstrapped(), w.cluster().Status.Bootstrap; c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "42 samples") || s.Phase != v1alpha1.BootstrapComplete || s.FinishedAt == nil {
		t.Fatalf("%+v, %+v", c, s)
	}
	// It never is again, also when its restore and its status are lost.
	w.must(w.api.Delete(t.Context(), w.restore()))
	for range 3 {
		w.step()
	}
	c := w.cluster()
	c.Status.Bootstrap, c.Status.Shards = nil, 0
	w.must(w.api.Status().Update(t.Context(), c))
	for range 3 {
		w.step()
	}
	if w.restore() != nil || !w.open() || w.cluster().Status.Bootstrap.Phase != v1alpha1.BootstrapSkipped {
		t.Fatalf("%+v", w.cluster().Status.Bootstrap)
	}
}

// A restore of somebody else with the name of the cluster's is left alone, and clients are let in
// when a person says that the backup is not wanted.
func TestBootstrapSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	theirs := &v1alpha1.TickMeshRestore{ObjectMeta: metav1.ObjectMeta{Name: "demo-bootstrap", Namespace: w.namespace}}
	theirs.Spec.ClusterRef.Name, theirs.Spec.Source.BackupName = "other", "sunday"
	w.must(w.api.Create(t.Context(), theirs))
	w.failing = "Bootstrap"
	w.create(bootstrapping)
	w.until("it waits", func() bool {
		return w.condition(v1alpha1.ConditionDegraded).Reason == "NameTaken" && w.cluster().Status.ReadyNodes == 3
	})
	if w.open() {
		t.Fatal("clients are let in")
	}
	w.annotate(v1alpha1.AnnotationBootstrap, v1alpha1.BootstrapSkip)
	w.until("a person lets clients in", func() bool { return w.open() && w.complete() })
}
