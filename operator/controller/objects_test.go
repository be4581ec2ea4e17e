package controller_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (w *world) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.api.Get(w.t.Context(), w.key(name), d))
	return d
}

func (w *world) statefulSet(name string) *appsv1.StatefulSet {
	w.t.Helper()
	s := &appsv1.StatefulSet{}
	w.must(w.api.Get(w.t.Context(), w.key(name), s))
	return s
}

// While a cluster is paused nothing is changed, and the status goes on.
func TestPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused, s.Nodes.Count, s.Image = true, 4, "tickmesh:next" })
	for range 5 {
		w.step()
	}
	c := w.cluster()
	if replicas := *w.statefulSet("demo-node").Spec.Replicas; replicas != 3 || c.Status.Phase != v1alpha1.PhasePaused || w.condition(v1alpha1.ConditionProgressing).Reason != "Paused" {
		t.Fatalf("%d replicas, %s", replicas, c.Status.Phase)
	}
	if c.Status.ObservedGeneration != c.Generation {
		t.Fatal("the status does not go on")
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = false })
	w.until("what was asked for meanwhile is done", func() bool { return w.complete() && w.cluster().Status.Version == "next" })
}

// The conditions say what is broken, and that it is not any more.
func TestConditions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	if w.pass(); w.condition(v1alpha1.ConditionAvailable).Reason != "NoShardMap" || w.condition(v1alpha1.ConditionProgressing).Reason != "Creating" ||
		w.condition(v1alpha1.ConditionDegraded).Reason != "AsExpected" || w.condition(v1alpha1.ConditionRebalancing).Status != metav1.ConditionUnknown {
		t.Fatalf("%+v", w.cluster().Status.Conditions)
	}
	w.until("the cluster is made", w.complete)

	w.mesh.SetReachable(false)
	w.step()
	if c := w.condition(v1alpha1.ConditionDegraded); c.Reason != "EtcdUnavailable" {
		t.Fatalf("%+v", c)
	}
	if c := w.condition(v1alpha1.ConditionAvailable); c.Status != metav1.ConditionTrue {
		t.Fatalf("without etcd all but placement works: %+v", c)
	}
	w.mesh.SetReachable(true)
	w.until("etcd is back", func() bool { return w.condition(v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse })

	w.routers = false
	w.step()
	if c := w.condition(v1alpha1.ConditionAvailable); c.Reason != "NoRouter" {
		t.Fatalf("%+v", c)
	}
	w.mesh.SetReachable(false)
	w.step()
	if c := w.condition(v1alpha1.ConditionAvailable); c.Reason != "NoRouter" {
		t.Fatalf("a cluster that nobody can be asked about is not one that is not made yet: %+v", c)
	}
	if c := w.condition(v1alpha1.ConditionProgressing); c.Status != metav1.ConditionUnknown {
		t.Fatalf("%+v", c)
	}
	w.mesh.SetReachable(true)
	w.routers = true
	w.until("routers are back", w.complete)

	machine := w.machineOf("demo-node-0")
	w.setMachine(machine, false)
	w.runMesh()
	w.until("copies are missing", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "UnderReplicated" })
	w.setMachine(machine, true)
	w.until("they are back", func() bool {
		return w.complete() && w.condition(v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse && w.condition(v1alpha1.ConditionRebalancing).Reason == "Balanced"
	})
}

// Monitors that Kubernetes has no kind for are told of, and keep nothing from being done.
func TestMonitorsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, monitoring: {podMonitor: true}}")
	w.until("it is told", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "MonitorsLeftOut" })
	if c := w.condition(v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "asks for a PodMonitor,") || len(w.events("MonitorsLeftOut")) != 1 {
		t.Fatalf("%+v, %q", c, w.events("MonitorsLeftOut"))
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Monitoring.PodMonitor = false })
	w.until("all is as asked for", w.complete)
}

// Shards that have no leader for a moment, as when leaderships move, change no condition;
// those that have none for long do, whichever operator has seen it first.
func TestLeadersAwayForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	before := w.condition(v1alpha1.ConditionAvailable)
	leaderless := false
	w.mesh.SetStatus(func() (*meshclient.Status, error) {
		status, err := w.status()
		if err == nil && leaderless {
			status.ShardStatuses[1].Leader = ""
		}
		return status, err
	})
	leaderless = true
	for range 3 { // 9 s
		w.pass()
	}
	if c := w.condition(v1alpha1.ConditionAvailable); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "1 of 6 shards have no leader that answers: 1;") {
		t.Fatalf("%+v", c)
	}
	leaderless = false
	w.pass()
	if c := w.condition(v1alpha1.ConditionAvailable); c.LastTransitionTime != before.LastTransitionTime || c.Message != before.Message || w.cluster().Status.LeaderlessSince != nil {
		t.Fatalf("%+v", c)
	}
	leaderless = true
	for range 4 { // another operator for each pass
		w.newOperator(0)
		w.pass()
	}
	w.pass()
	if c := w.condition(v1alpha1.ConditionAvailable); c.Status != metav1.ConditionFalse || c.Reason != "ShardsWithoutLeader" {
		t.Fatalf("%+v", c)
	}
	leaderless = false
	w.pass()
	if c := w.condition(v1alpha1.ConditionAvailable); c.Status != metav1.ConditionTrue {
		t.Fatalf("it is back at once: %+v", c)
	}
}

// Certificates are renewed in time; one that has ended is told of.
func TestCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	first := w.cluster().Status.Certificates.NotAfter
	w.now = first.Add(-24 * time.Hour)
	w.until("they are renewed", func() bool { return w.cluster().Status.Certificates.NotAfter.After(first.Time) })

	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = true })
	w.now = w.cluster().Status.Certificates.NotAfter.Add(time.Hour)
	w.until("it is told that they have ended", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "CertificateExpired" })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = false })
	w.until("they are renewed", w.complete)
}

// A Secret under one of our names that is somebody else's is never written.
func TestForeignSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.must(w.api.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-node-tls", Namespace: w.namespace}, Data: map[string][]byte{"mine": []byte("yes")},
	}))
	w.create(small)
	if _, err := w.operator.Reconcile(t.Context(), request(w)); err == nil || !strings.Contains(err.Error(), "does not belong to this cluster") {
		t.Fatal(err)
	}
	if c := w.condition(v1alpha1.ConditionDegraded); c.Reason != "CertificatesFailed" || !strings.Contains(c.Message, "demo-node-tls") {
		t.Fatalf("%+v", c)
	}
	secret := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), w.key("demo-node-tls"), secret))
	if len(secret.Data) != 1 {
		t.Fatal("it was written")
	}
}

// When a cluster is deleted, its volumes go or stay as the policy says.
func TestDelete(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.create(small)
			w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.DeletionPolicy = policy })
			w.until("the cluster is made", w.complete)
			w.must(w.api.Delete(t.Context(), w.cluster()))
			gone := false
			for range stepsMax {
				w.pass()
				if gone = !w.found(w.api.Get(t.Context(), w.key(clusterName), &v1alpha1.TickMeshCluster{})); gone {
					break
				}
				w.controllers()
			}
			if !gone {
				t.Fatal("it is still there")
			}
			w.must(w.api.DeleteAllOf(t.Context(), &appsv1.StatefulSet{}, client.InNamespace(w.namespace))) // as the collector of garbage does
			w.controllers()
			if left := len(w.claims()); policy == v1alpha1.DeletionPolicyDelete && left != 0 || policy == v1alpha1.DeletionPolicyRetain && left != 3 {
				t.Fatalf("%d claims are left", left)
			}
		})
	}
}

// Volumes grow with the spec, claim by claim, where their storage class lets them.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.must(w.api.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Provisioner: "example.com/disks", AllowVolumeExpansion: new(true)}))
	w.create("{shards: 6, nodes: {count: 3, storage: {size: 10Gi, storageClassName: grows}}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.Size = resource.MustParse("20Gi") })
	asked := func(claim string) string {
		c := &corev1.PersistentVolumeClaim{}
		w.must(w.api.Get(t.Context(), w.key(claim), c))
		return c.Spec.Resources.Requests.Storage().String()
	}
	w.until("all claims ask for more", func() bool {
		return asked("data-demo-node-0") == "20Gi" && asked("data-demo-node-1") == "20Gi" && asked("data-demo-node-2") == "20Gi"
	})
	w.until("all is as asked for", w.complete)
	if told := w.events("VolumeGrows"); len(told) != 3 {
		t.Errorf("told: %q", told)
	}
}

// Where the storage class does not let a volume grow, the API server refuses, and the
// status says so.
func TestVolumesDoNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, nodes: {count: 3, storage: {size: 10Gi}}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.Size.Add(s.Nodes.Storage.Size) })
	_, err := w.operator.Reconcile(t.Context(), request(w))
	if err == nil || !strings.Contains(err.Error(), "grow volume claim") {
		t.Fatal(err)
	}
	if c := w.condition(v1alpha1.ConditionDegraded); c.Reason != "VolumesFailed" {
		t.Fatalf("%+v", c)
	}
}

// The operator can write its status whatever somebody does to the spec meanwhile, and a
// claim that somebody changes between a look and a write is looked at again.
func TestConflictingEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.count(5)
	for n := range 40 {
		w.step()
		c := w.cluster()
		c.Annotations = map[string]string{"edit": strings.Repeat("x", n)}
		w.must(w.api.Update(t.Context(), c))
		for _, name := range w.claims() {
			claim := &corev1.PersistentVolumeClaim{}
			w.must(w.api.Get(t.Context(), w.key(name), claim))
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "edit", c.Annotations["edit"])
			w.must(w.api.Update(t.Context(), claim))
		}
		if n == 20 {
			w.count(4)
		}
	}
	w.until("it has four nodes", w.complete)
	if edit := w.cluster().Annotations["edit"]; len(edit) != 39 {
		t.Fatal("the edits of others are lost")
	}
}
