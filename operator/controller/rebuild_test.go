package controller_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// rebuilding is a world in which etcd loses its majority for good: the store is away while
// etcd is, and empty when a new one is made, until the Job has done its work.
type rebuilding struct {
	*world
	empty   memstore.Snapshot
	rescued shardmap.Map
	made    int // clusters of etcd, as far as the store knows
}

// newRebuilding makes a cluster.
func newRebuilding(t *testing.T, machines int) *rebuilding {
	t.Helper()
	w := newWorld(t, machines)
	r := &rebuilding{world: w, empty: w.mesh.Store.Snapshot()}
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.until("all members of etcd are known", func() bool { return len(w.knownMembers()) == 3 })
	view, err := w.placement.Load(t.Context())
	w.must(err)
	r.rescued, r.made = view.Map.Clone(), w.etcd.made
	r.rescued.Epoch += 1 << 20
	return r
}

// knownMembers returns the members whose volumes the status has.
func (w *world) knownMembers() (names []string) {
	w.t.Helper()
	for _, m := range w.cluster().Status.Etcd.Members {
		if m.ClaimUID != "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// step lets everything go on a little.
func (r *rebuilding) step() (killed bool) {
	r.t.Helper()
	killed = r.pass()
	r.controllers()
	r.runEtcd()
	_, err := r.etcd.View(r.t.Context())
	r.mesh.SetReachable(err == nil)
	switch {
	case err != nil:
		return killed // no placement either
	case r.etcd.made > r.made:
		r.made = r.etcd.made
		r.mesh.Store.Restore(r.empty)
		for _, name := range slices.Sorted(maps.Keys(r.processes)) {
			r.stopProcess(name) // their leases are gone: they register anew
		}
		r.t.Log("the store is empty")
	}
	if r.hasMap() {
		r.runMesh()
	} else if r.found(r.api.Get(r.t.Context(), r.key("demo-rescue"), &batchv1.Job{})) {
		store := r.mesh.Store.Open(shardmap.Seen{})
		r.must(store.CompareAndSwap(r.t.Context(), 0, r.rescued))
		r.must(store.Close())
	}
	return killed
}

// hasMap reports whether there is a shard map in the store.
func (r *rebuilding) hasMap() bool {
	r.t.Helper()
	store := r.mesh.Store.Open(shardmap.Seen{})
	view, err := store.Load(r.t.Context())
	r.must(err)
	r.must(store.Close())
	return view.Map != nil
}

// until lets everything go on until something is so.
func (r *rebuilding) until(what string, is func() bool) {
	r.t.Helper()
	for range stepsMax {
		if is() {
			return
		}
		r.step()
	}
	text, _ := yaml.Marshal(r.cluster().Status)
	r.t.Fatalf("never: %s\n%s", what, text)
}

// lose takes the machines of members away for ever.
func (r *rebuilding) lose(members ...string) {
	r.t.Helper()
	for _, name := range members {
		r.removeMachine(r.machineOf(name))
	}
	r.runEtcd()
}

// recovered reports whether a new etcd of three runs, and all is as it was asked for.
func (r *rebuilding) recovered() bool {
	e := r.cluster().Status.Etcd
	return r.etcd.made == 2 && r.complete() && e.Generation == 1 && e.Rebuild == "" && e.UnavailableSince == nil && e.ReadyMembers == 3
}

// An etcd of three that loses two machines for good is waited for, told of, and made anew;
// the nodes on these machines are lost, too, and are replaced afterwards.
func TestEtcdQuorumLost(t *testing.T) {
	t.Parallel()
	r := newRebuilding(t, 7)
	uids := map[string]bool{}
	for _, name := range []string{"data-demo-etcd-0", "data-demo-etcd-1", "data-demo-etcd-2"} {
		uids[r.claimUID(name)] = true
	}
	r.lose("demo-etcd-0", "demo-etcd-2", "demo-node-1")
	r.until("the status tells of it", func() bool { return r.condition(v1alpha1.ConditionDegraded).Reason == "EtcdQuorumLost" })
	c := r.condition(v1alpha1.ConditionDegraded)
	if !strings.Contains(c.Message, "demo-etcd-0, demo-etcd-2") || !strings.Contains(c.Message, "a new etcd takes its place") || !strings.Contains(c.Message, "serve on") {
		t.Error(c.Message)
	}
	if r.cluster().Status.Etcd.UnavailableSince == nil || r.cluster().Status.Etcd.Generation != 0 {
		t.Errorf("%+v", r.cluster().Status.Etcd)
	}
	arguments := slices.Clone(r.deployment("demo-router").Spec.Template.Spec.Containers[0].Args)
	r.now = r.now.Add(9 * time.Minute)
	for range 5 {
		r.step()
	}
	if *r.statefulSet("demo-etcd").Spec.Replicas != 3 || r.cluster().Status.Etcd.Rebuild != "" {
		t.Fatal("it did not wait")
	}
	r.now = r.now.Add(2 * time.Minute)
	r.until("the old one goes", func() bool { return r.cluster().Status.Etcd.Rebuild == v1alpha1.EtcdRebuildClearing })
	r.until("a new one is made", func() bool {
		if !slices.Equal(arguments, r.deployment("demo-router").Spec.Template.Spec.Containers[0].Args) {
			t.Fatal("routers are restarted meanwhile")
		}
		return r.etcd.made == 2
	})
	job := &batchv1.Job{}
	r.until("the shard map is rescued", func() bool { return r.found(r.api.Get(t.Context(), r.key("demo-rescue"), job)) })
	if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--lost=demo-node-1") {
		t.Errorf("%q", args)
	}
	r.until("all goes on", r.recovered)
	for name := range uids {
		if slices.Contains([]string{r.claimUID("data-demo-etcd-0"), r.claimUID("data-demo-etcd-1"), r.claimUID("data-demo-etcd-2")}, name) {
			t.Error("a volume of the old etcd is in use")
		}
	}
	config := &corev1.ConfigMap{}
	r.must(r.api.Get(t.Context(), r.key("demo-etcd"), config))
	if text := config.Data["etcd.yaml"]; !strings.Contains(text, string(r.cluster().UID)+"-1\"") {
		t.Error(text)
	}
}

// Machines that only say nothing may come back with a majority, so they are waited for
// until a person says that they do not come back.
func TestEtcdQuorumSilent(t *testing.T) {
	t.Parallel()
	r := newRebuilding(t, 7)
	silent := []string{r.machineOf("demo-etcd-0"), r.machineOf("demo-etcd-1")}
	for _, name := range silent {
		r.setMachine(name, false)
	}
	r.runEtcd()
	r.step()
	r.now = r.now.Add(24 * time.Hour)
	for range 10 {
		r.step()
	}
	if c := r.condition(v1alpha1.ConditionDegraded); r.etcd.made != 1 || r.cluster().Status.Etcd.Rebuild != "" || c.Reason == "EtcdQuorumLost" {
		t.Fatalf("%+v", c)
	}
	ask := func(generation string) {
		c := r.cluster()
		c.Annotations = map[string]string{v1alpha1.AnnotationRebuildEtcd: generation}
		r.must(r.api.Update(t.Context(), c))
	}
	ask("2")
	for range 5 {
		r.step()
	}
	if r.cluster().Status.Etcd.Rebuild != "" {
		t.Fatal("a generation that does not follow is no word")
	}
	node := r.machineOf("demo-node-1")
	r.setMachine(node, false) // it may come back, and may know a newer map
	r.step()
	ask("1")
	for range 10 {
		r.step()
	}
	if c := r.condition(v1alpha1.ConditionDegraded); r.cluster().Status.Etcd.Rebuild != "" || !strings.Contains(c.Message, "a person says") || !strings.Contains(c.Message, "demo-node-1 is not ready") {
		t.Fatalf("%+v", c)
	}
	r.setMachine(node, true)
	r.until("all goes on", r.recovered)
	for _, name := range silent {
		r.setMachine(name, true)
	}
	for range 10 {
		r.step()
	}
	if !r.recovered() {
		t.Fatal("the annotation that is still there does harm")
	}
}

// Machines that come back before anything is taken away bring the old etcd back.
func TestEtcdQuorumComesBack(t *testing.T) {
	t.Parallel()
	r := newRebuilding(t, 7)
	back := r.machineOf("demo-etcd-0")
	r.setMachine(back, false)
	r.lose("demo-etcd-1")
	for range 5 {
		r.step()
	}
	r.now = r.now.Add(time.Hour)
	r.step()
	if c := r.condition(v1alpha1.ConditionDegraded); !strings.Contains(r.condition(v1alpha1.ConditionProgressing).Message, "the data of demo-etcd-1 is gone for good, and it waits") {
		t.Errorf("%+v\n%+v", c, r.condition(v1alpha1.ConditionProgressing))
	}
	r.setMachine(back, true)
	r.until("all goes on", func() bool {
		return r.complete() && r.cluster().Status.Etcd.ReadyMembers == 3 && r.cluster().Status.Etcd.UnavailableSince == nil
	})
	if r.etcd.made != 1 || r.cluster().Status.Etcd.Generation != 0 {
		t.Fatal("a new etcd was made")
	}
}
