package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(w.t.Context(), w.key(name), claim))
	return claim
}

// untilRestarted waits until the first node runs with an argument.
func (w *world) untilRestarted(argument string) {
	w.t.Helper()
	w.until("pods are restarted", func() bool {
		pod := &corev1.Pod{}
		return w.found(w.api.Get(w.t.Context(), w.key("demo-node-0"), pod)) && strings.Contains(strings.Join(pod.Spec.Containers[0].Args, " "), argument)
	})
}

// A budget that allows no eviction keeps pods from being restarted, which is told.
func TestBudgetsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.noDisruption = true
	w.controllers()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "90d" })
	uid := w.pod("demo-node-2").UID
	w.until("it is told", func() bool {
		return strings.Contains(w.condition(v1alpha1.ConditionProgressing).Message, "a PodDisruptionBudget does not allow it now")
	})
	for range 5 {
		w.step()
	}
	for _, name := range []string{"demo-node-0", "demo-node-1", "demo-node-2"} {
		if strings.Contains(strings.Join(w.pod(name).Spec.Containers[0].Args, " "), "--retention=90d") {
			t.Fatalf("%s was restarted", name)
		}
	}
	if w.pod("demo-node-2").UID != uid {
		t.Fatal("a pod was ended")
	}
	w.noDisruption = false
	w.untilRestarted("--retention=90d")
}

// Two budgets that name a pod do not keep it from being restarted: the API server refuses
// such evictions for ever, as it cannot serve them.
func TestTwoBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	budgets := &policyv1.PodDisruptionBudgetList{}
	w.must(w.api.List(t.Context(), budgets, client.InNamespace(w.key("").Namespace)))
	for i := range budgets.Items {
		second := &policyv1.PodDisruptionBudget{Spec: budgets.Items[i].Spec}
		second.Name, second.Namespace = budgets.Items[i].Name+"-second", budgets.Items[i].Namespace
		w.must(w.api.Create(t.Context(), second))
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "90d" })
	w.untilRestarted("--retention=90d")
}

// Claims whose labels somebody has taken away still have the data of their members: no etcd
// is made anew for that.
func TestLostLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	for _, name := range []string{"data-demo-etcd-1", "data-demo-etcd-2"} {
		claim := w.claim(name)
		before := claim.DeepCopy()
		claim.Labels = nil
		w.must(w.api.Patch(t.Context(), claim, client.MergeFrom(before)))
	}
	w.etcd.down = true
	for ends := w.now.Add(15 * time.Minute); w.now.Before(ends); {
		w.pass()
	}
	if s := w.cluster().Status.Etcd; s.Rebuild != "" || s.Generation != 0 || len(w.claims()) != 3 {
		t.Fatalf("%+v", s)
	}
	w.etcd.down = false
	w.until("it is back", w.complete)
}

// An etcd of one member whose Kubernetes node is deleted and joined again keeps its volume.
func TestMachineJoinsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.create("{shards: 6, replication: 1, nodes: {count: 1}}")
	w.until("the cluster is made", w.complete)
	machine := w.machineOf("demo-etcd-0")
	before := w.claim("data-demo-etcd-0").UID
	w.removeMachine(machine)
	w.etcd.down = true
	for range 10 { // half a minute
		w.pass()
	}
	if w.claim("data-demo-etcd-0").UID != before || w.claim("data-demo-etcd-0").DeletionTimestamp != nil {
		t.Fatal("its volume is given up")
	}
	w.rejoinMachine(machine)
	w.etcd.down = false
	w.until("it is back", w.complete)
	claim := w.claim("data-demo-etcd-0")
	if claim.UID != before || claim.Annotations["tickmesh.dev/machine-missing-since"] != "" {
		t.Fatalf("%+v", claim.ObjectMeta)
	}
}

// A pod that finds no machine keeps no other from being restarted: the cluster's own budget counts
// it as one that is disrupted already.
func TestPendingNodeKeepsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 4 })
	w.until("a pod finds no machine", func() bool {
		pod := &corev1.Pod{}
		return w.found(w.api.Get(t.Context(), w.key("demo-node-3"), pod)) && pod.Spec.NodeName == ""
	})
	w.step()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "90d" })
	w.untilRestarted("--retention=90d")

	// One that ran and does not now is another matter.
	w.addMachine("z0")
	w.until("all four run", w.complete)
	w.noDisruption = true
	w.controllers()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "91d" })
	uid := w.pod("demo-node-3").UID
	for range 10 {
		w.step()
	}
	if w.pod("demo-node-3").UID != uid {
		t.Fatal("a pod was ended though a budget is used up")
	}
}
