package controller_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// An etcd that has lost the shard map gets it back from a Job, which is made when all
// nodes are ready, and once; meanwhile nothing is scaled.
func TestShardMapLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	empty := w.mesh.Store.Snapshot()
	w.create(small)
	w.until("the cluster is made", w.complete)
	view, err := w.placement.Load(t.Context())
	w.must(err)
	rescued := view.Map.Clone()
	rescued.Epoch += 1 << 20

	w.mesh.Store.Restore(empty)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 4 })
	w.pass()
	job := &batchv1.Job{}
	w.must(w.api.Get(t.Context(), w.key("demo-rescue"), job))
	args := strings.Join(job.Spec.Template.Spec.Containers[0].Args, " ")
	for _, want := range []string{"rescue-map --write", "demo-node-2.demo-node." + w.namespace + ".svc:6190", "--etcd-endpoints=https://demo-etcd-0", "--rpc-tls-ca=", "--etcd-tls-cert="} {
		if !strings.Contains(args, want) {
			t.Errorf("%q is not in %q", want, args)
		}
	}
	uid := job.UID
	for range 3 {
		w.pass()
	}
	w.must(w.api.Get(t.Context(), w.key("demo-rescue"), job))
	if job.UID != uid {
		t.Error("the Job was made again")
	}
	c := w.condition(v1alpha1.ConditionDegraded)
	if c.Reason != "ShardMapLost" || !strings.Contains(c.Message, "demo-rescue") {
		t.Errorf("%+v", c)
	}

	store := w.mesh.Store.Open(shardmap.Seen{}) // what the Job does
	w.must(store.CompareAndSwap(t.Context(), 0, rescued))
	w.must(store.Close())
	for _, name := range slices.Sorted(maps.Keys(w.processes)) {
		w.stopProcess(name) // their leases are gone: they register anew
	}
	w.until("all goes on", w.complete)
}

// While a node is not ready the shard map is not built anew without it.
func TestShardMapLostWithANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	empty := w.mesh.Store.Snapshot()
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.setMachine(w.machineOf("demo-node-2"), false)
	w.step()
	w.mesh.Store.Restore(empty)
	for range 3 {
		w.pass()
	}
	if w.found(w.api.Get(t.Context(), w.key("demo-rescue"), &batchv1.Job{})) {
		t.Error("there is a Job")
	}
	if c := w.condition(v1alpha1.ConditionDegraded); !strings.Contains(c.Message, "demo-node-2 is not") {
		t.Errorf("%+v", c)
	}
}

// The only member of an etcd begins anew when its volume was lost, and only then.
func TestEtcdBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.create("{shards: 6, replication: 2, nodes: {count: 2}}")
	w.until("the cluster is made", w.complete)
	state := func() string {
		config := &corev1.ConfigMap{}
		w.must(w.api.Get(t.Context(), w.key("demo-etcd"), config))
		return config.Data["etcd.yaml"]
	}
	w.etcd.down = true
	for range 3 {
		w.pass()
	}
	if text := state(); !strings.Contains(text, "initial-state: existing") || !strings.Contains(text, "nobody=") {
		t.Errorf("it only does not answer, and has %q", text)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: w.namespace} }
	w.must(w.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: meta("data-demo-etcd-0")}))
	w.must(w.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: meta("demo-etcd-0")}))
	w.until("it may begin", func() bool { return strings.Contains(state(), "initial-state: new") })
	if strings.Contains(state(), "nobody=") {
		t.Error(state())
	}
	w.etcd.down = false
	w.until("all goes on", w.complete)
	w.pass()
	if !strings.Contains(state(), "initial-state: existing") {
		t.Error("a volume that is lost later would be taken for a new one")
	}
}
