package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// An upgrade restarts the nodes and the members of etcd, one of each at a time.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:next" })
	w.until("all run the next version", func() bool {
		if down := 3 - len(w.processes); down > 1 {
			t.Fatalf("%d nodes are down at a time", down)
		}
		healthy := 0
		for _, m := range w.etcd.members {
			if m.Healthy {
				healthy++
			}
		}
		if healthy < 2 {
			t.Fatal("etcd has lost its majority")
		}
		return w.cluster().Status.Version == "next" && w.complete()
	})
	var pods corev1.PodList
	w.must(w.api.List(t.Context(), &pods, client.InNamespace(w.namespace)))
	for i := range pods.Items {
		if image := pods.Items[i].Spec.Containers[0].Image; image != "tickmesh:next" {
			t.Errorf("%s runs %s", pods.Items[i].Name, image)
		}
	}
}

func (w *world) machineOf(pod string) string {
	w.t.Helper()
	p := &corev1.Pod{}
	w.must(w.api.Get(w.t.Context(), w.key(pod), p))
	return p.Spec.NodeName
}

// A machine that is off for long is given up, with its volume; when it comes back, it
// finds that it was replaced.
func TestMachineLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create(small)
	w.until("the cluster is made", w.complete)
	machine := w.machineOf("demo-node-1")
	w.setMachine(machine, false)
	before := w.claimUID("data-demo-node-1")
	w.until("the status tells of it", func() bool { return w.condition(v1alpha1.ConditionDegraded).Status == metav1.ConditionTrue })
	if w.claimUID("data-demo-node-1") != before {
		t.Fatal("the volume was given up at once")
	}
	w.now = w.now.Add(11 * time.Minute)
	w.until("it is lost", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "MachineLost" })
	if c := w.condition(v1alpha1.ConditionDegraded); !strings.Contains(c.Message, machine) || !strings.Contains(c.Message, "demo-node-1") {
		t.Fatal(c.Message)
	}
	w.until("all is well again", func() bool {
		return w.complete() && w.condition(v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse
	})
	if w.machineOf("demo-node-1") == machine || w.claimUID("data-demo-node-1") == before {
		t.Fatal("it was not replaced")
	}
	w.setMachine(machine, true)
	for range 10 {
		w.step()
	}
	if !w.complete() {
		t.Fatal("the machine that came back does harm")
	}
}

func (w *world) claimUID(name string) string {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if !w.found(w.api.Get(w.t.Context(), w.key(name), claim)) {
		return ""
	}
	return string(claim.UID)
}

// With a single copy a machine that is lost is waited for, and the status says which
// shards do.
func TestMachineLostWithTheOnlyCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 1, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	machine := w.machineOf("demo-node-1")
	before := w.claimUID("data-demo-node-1")
	w.removeMachine(machine)
	w.now = w.now.Add(time.Hour)
	for range 20 {
		w.step()
	}
	c := w.condition(v1alpha1.ConditionDegraded)
	if c.Reason != "MachineLost" || !strings.Contains(c.Message, "2 shards wait for it") {
		t.Fatalf("%+v", c)
	}
	if available := w.condition(v1alpha1.ConditionAvailable); available.Reason != "ShardsWithoutLeader" {
		t.Fatalf("%+v", available)
	}
	if w.claimUID("data-demo-node-1") != before {
		t.Fatal("the only copy was given up")
	}
}

// A claim that somebody deletes under a running pod: the node is built anew, and nobody
// has to do more.
func TestVolumeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(t.Context(), w.key("data-demo-node-0"), claim))
	w.must(w.api.Delete(t.Context(), claim))
	w.until("the status tells of it", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "VolumeLost" })
	w.until("it is built anew", func() bool {
		if len(w.processes) < 2 {
			t.Fatal("two nodes are down")
		}
		uid := w.claimUID("data-demo-node-0")
		return uid != "" && uid != string(claim.UID) && w.complete() && w.condition(v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse
	})
}

// The only copy is not given up because somebody deletes its claim.
func TestVolumeDeletedWithTheOnlyCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 1, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(t.Context(), w.key("data-demo-node-0"), claim))
	w.must(w.api.Delete(t.Context(), claim))
	for range 20 {
		w.step()
	}
	if w.condition(v1alpha1.ConditionDegraded).Reason != "VolumeLost" || w.processes["demo-node-0"] == nil {
		t.Fatalf("%+v", w.condition(v1alpha1.ConditionDegraded))
	}
}

// A member of etcd on a machine that is gone is replaced; until then that is told, beside
// the node that was there, too.
func TestEtcdMemberLost(t *testing.T) {
	t.Parallel()
	for member, reason := range map[string]string{"demo-etcd-0": "EtcdMemberLost", "demo-etcd-2": "MachineLost"} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			w.create("{shards: 6, replication: 2, nodes: {count: 3}}")
			w.until("the cluster is made", w.complete)
			machine := w.machineOf(member)
			before := slices.Clone(w.etcd.members)
			w.removeMachine(machine)
			w.until("it is told", func() bool {
				c := w.condition(v1alpha1.ConditionDegraded)
				return c.Reason == reason && strings.Contains(c.Message, member+" has lost its volume or machine")
			})
			w.until("another one has its place", func() bool {
				c := w.cluster()
				return w.complete() && c.Status.Etcd.ReadyMembers == 3 && w.machineOf(member) != machine
			})
			if slices.Equal(before, w.etcd.members) {
				t.Fatal("the members are the same")
			}
		})
	}
}

// What others change in our fields is put back, what is theirs stays.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, routers: {autoscaling: {min: 2, max: 5}}}")
	w.until("the cluster is made", w.complete)
	service := &corev1.Service{}
	w.must(w.api.Get(t.Context(), w.key("demo"), service))
	before := service.DeepCopy()
	service.Spec.Selector["app.kubernetes.io/component"] = "elsewhere"
	service.Annotations = map[string]string{"somebody": "was here"}
	w.must(w.api.Patch(t.Context(), service, client.MergeFrom(before)))
	set := w.deployment("demo-router")
	changed := set.DeepCopy()
	*changed.Spec.Replicas = 4 // as an autoscaler does
	w.must(w.api.Patch(t.Context(), changed, client.MergeFrom(set)))
	for range 3 {
		w.step()
	}
	w.must(w.api.Get(t.Context(), w.key("demo"), service))
	if service.Spec.Selector["app.kubernetes.io/component"] != build.ComponentEnvoy || service.Annotations["somebody"] != "was here" {
		t.Fatalf("%+v %+v", service.Spec.Selector, service.Annotations)
	}
	if replicas := *w.deployment("demo-router").Spec.Replicas; replicas != 4 {
		t.Fatalf("%d routers", replicas)
	}
}

// An operator that finds nothing to do writes nothing.
func TestQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	for range 5 {
		w.step()
	}
	writes := w.life.writes
	for range 5 {
		w.pass()
	}
	if wrote := w.life.writes - writes; wrote != 0 {
		t.Fatalf("%d writes in five passes", wrote)
	}
}

// Someone who scales the StatefulSet by hand gets what the cluster asks for.
func TestStatefulSetScaledByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	set := w.statefulSet("demo-node")
	changed := set.DeepCopy()
	*changed.Spec.Replicas = 1
	w.must(w.api.Patch(t.Context(), changed, client.MergeFrom(set)))
	w.controllers()
	w.until("all nodes are back", func() bool { return *w.statefulSet("demo-node").Spec.Replicas == 3 && w.complete() })
	for ordinal := range 3 {
		if len(w.view().Incarnations[fmt.Sprintf("demo-node-%d", ordinal)]) != 1 {
			t.Fatal("a volume was lost")
		}
	}
}
