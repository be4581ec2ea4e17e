package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/certificate"
	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/pki"
)

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.must(w.api.Get(w.t.Context(), w.key(name), pod))
	return pod
}

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

// While a cluster is paused nothing is changed, and the status goes on. A pod that Kubernetes
// makes anew starts all the same.
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
	w.must(w.api.Delete(t.Context(), w.pod("demo-node-1"), client.GracePeriodSeconds(0)))
	w.stopProcess("demo-node-1")
	w.until("the pod that was made anew is ready", func() bool { return w.cluster().Status.ReadyNodes == 3 && w.processes["demo-node-1"] != nil })
	if version := w.pod("demo-node-0").Spec.Containers[0].Image; version == "tickmesh:next" {
		t.Fatal("a pod that ran was restarted")
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
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, service: {tls: {}}}")
	w.until("the cluster is made", w.complete)
	first := w.cluster().Status.Certificates.NotAfter
	w.now = first.Add(-24 * time.Hour)
	w.until("they are renewed", func() bool { return w.cluster().Status.Certificates.NotAfter.After(first.Time) })

	// A pause stops what is asked for meanwhile, and no renewal.
	names := func() []string {
		secret := &corev1.Secret{}
		w.must(w.api.Get(t.Context(), w.key("demo-edge-tls"), secret))
		leaf, err := pki.ReadLeaf(secret)
		w.must(err)
		return leaf.Certificate.DNSNames
	}
	before := names()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Paused, s.Service.TLS.Hosts = true, []string{"new.example.com"}
	})
	second := w.cluster().Status.Certificates.NotAfter
	w.now = second.Add(-24 * time.Hour)
	w.until("they are renewed in a pause", func() bool { return w.cluster().Status.Certificates.NotAfter.After(second.Time) })
	if after := names(); !slices.Equal(before, after) {
		t.Fatalf("%q became %q in a pause", before, after)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = false })
	w.until("what was asked for is done", func() bool { return w.complete() && slices.Contains(names(), "new.example.com") })
}

// A certificate that has ended, and that somebody else has to renew, is told of.
func TestCertificateExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	authority, err := pki.NewCA(pki.Defaults(), clusterName, nil, w.now)
	w.must(err)
	leaf, err := authority.Issue(pki.Defaults(), pki.Holder{Identity: certificate.Identity{CommonName: "all", Hosts: []string{"localhost"}}}, w.now)
	w.must(err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: w.namespace}}
	w.must(leaf.Write(secret))
	w.must(w.api.Create(t.Context(), secret))
	w.create("{shards: 6, nodes: {count: 3}, tls: {mode: Secrets, names: Optional, secretNames: {node: mine, router: mine, etcd: mine, operator: mine}}}")
	w.until("the cluster is made", w.complete)
	w.now = leaf.Certificate.NotAfter.Add(time.Hour)
	w.until("it is told that it has ended", func() bool {
		c := w.condition(v1alpha1.ConditionDegraded)
		return c.Reason == "CertificateExpired" && strings.Contains(c.Message, "mine")
	})
}

// Certificates that others make have to name their process in a new cluster. One that takes
// others goes on, is told of, and demands names once it is asked to and they are there.
func TestCertificateNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	authority, err := pki.NewCA(pki.Defaults(), clusterName, nil, w.now)
	w.must(err)
	put := func(secretName, uri string) {
		identity := certificate.Identity{CommonName: secretName, Hosts: []string{"localhost"}}
		if uri != "" {
			identity.Name = certificate.Name{Cluster: clusterName, Role: certificate.Role(uri)}
			if uri == "node" {
				identity.Name.ID = certificate.AnyID
			}
		}
		leaf, err := authority.Issue(pki.Defaults(), pki.Holder{Identity: identity}, w.now)
		w.must(err)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: w.namespace}}
		w.must(client.IgnoreNotFound(w.api.Delete(t.Context(), secret.DeepCopy())))
		w.must(leaf.Write(secret))
		w.must(w.api.Create(t.Context(), secret))
	}
	optional := func() bool {
		return build.NamesOptional(&w.statefulSet("demo-node").Spec.Template) && build.NamesOptional(&w.deployment("demo-router").Spec.Template)
	}
	put("a", "")
	put("b", "node")
	w.create("{shards: 6, nodes: {count: 3}, tls: {mode: Secrets, secretNames: {node: a, router: b, etcd: b, operator: b}}}")
	w.until("it is told", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "CertificatesWithoutNames" })
	if c := w.condition(v1alpha1.ConditionProgressing); optional() ||
		!strings.Contains(c.Message, "secret a: its certificate needs the URI tickmesh://demo/node/*, and has none; secret b: its certificate needs the URI tickmesh://demo/router, and is of tickmesh://demo/node/*") {
		t.Fatalf("%v %+v", optional(), c)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.TLS.Names = v1alpha1.CertificateNamesOptional })
	w.until("who wants them is not told", func() bool { return optional() && w.complete() })

	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.TLS.Names = "" }) // as an older operator has left it
	w.until("it goes on, and is told", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "CertificatesWithoutNames" })
	if c := w.condition(v1alpha1.ConditionProgressing); !optional() || !strings.Contains(c.Message, "set spec.tls.names to Required") {
		t.Fatalf("%v %+v", optional(), c)
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.TLS.Names = v1alpha1.CertificateNamesRequired })
	w.until("it waits for the names", func() bool {
		return strings.Contains(w.condition(v1alpha1.ConditionProgressing).Message, "until those of the cluster have names")
	})
	if !optional() {
		t.Fatal("nodes would refuse each other")
	}
	put("a", "node")
	put("b", "router")
	w.until("names are demanded", func() bool { return !optional() && w.complete() })
}

// What is refused of one step keeps no other from going on: here the routers are to run where
// the API server lets nobody run, and a node is lost meanwhile.
func TestStepsDoNotStopOneAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.failing = "Objects"
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Routers.Placement.NodeSelector = map[string]string{"no label": "x"}
		s.Retention = "90d"
	})
	w.until("it is told", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "ObjectsFailed" })
	if c := w.condition(v1alpha1.ConditionDegraded); !strings.Contains(c.Message, "apply Deployment demo-router") {
		t.Fatalf("%+v", c)
	}
	machine := w.machineOf("demo-node-0")
	w.removeMachine(machine)
	w.runMesh()
	w.until("the lost node is on another machine, and all nodes run as they are to", func() bool {
		c, pod := w.cluster(), &corev1.Pod{}
		if !w.found(w.api.Get(t.Context(), w.key("demo-node-0"), pod)) || pod.Spec.NodeName == machine || c.Status.ReadyNodes != 3 || c.Status.UnderReplicated != 0 {
			return false
		}
		return w.found(w.api.Get(t.Context(), w.key("demo-node-2"), pod)) && slices.Contains(pod.Spec.Containers[0].Args, "--retention=90d")
	})
	w.failing = ""
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Routers.Placement.NodeSelector = nil })
	w.until("all is as asked for", w.complete)
}

// A Secret under one of our names that is somebody else's is never written.
func TestForeignSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.must(w.api.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-router-tls", Namespace: w.namespace}, Data: map[string][]byte{"mine": []byte("yes")},
	}))
	w.create(small)
	if _, err := w.operator.Reconcile(t.Context(), request(w)); err == nil || !strings.Contains(err.Error(), "does not belong to this cluster") {
		t.Fatal(err)
	}
	if c := w.condition(v1alpha1.ConditionDegraded); c.Reason != "NameTaken" || !strings.Contains(c.Message, "demo-router-tls") {
		t.Fatalf("%+v", c)
	}
	secret := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), w.key("demo-router-tls"), secret))
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

// Where the storage class does not let a volume grow, the status says so and what to do, all
// else goes on, and the size can be set back to that of the volumes.
func TestVolumesDoNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.must(w.api.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Provisioner: "example.com/folders"}))
	w.create("{shards: 6, nodes: {count: 3, storage: {size: 10Gi, storageClassName: fixed}}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.Size.Add(s.Nodes.Storage.Size) })
	w.until("it is told", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "VolumesCannotGrow" })
	if c := w.condition(v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "nodes.storage.size asks for 20Gi") ||
		!strings.Contains(c.Message, "data-demo-node-0, data-demo-node-1, data-demo-node-2") || len(w.events("VolumesCannotGrow")) != 1 {
		t.Fatalf("%+v %q", c, w.events("VolumesCannotGrow"))
	}
	w.must(w.api.Delete(t.Context(), w.pod("demo-node-1"), client.GracePeriodSeconds(0)))
	w.stopProcess("demo-node-1")
	w.until("a pod that is made anew is ready", func() bool { return w.cluster().Status.ReadyNodes == 3 && w.processes["demo-node-1"] != nil })
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.Size = resource.MustParse("10Gi") })
	w.until("the size is that of the volumes again", w.complete)
	c := w.cluster()
	c.Spec.Nodes.Storage.Size = resource.MustParse("9Gi")
	if err := w.api.Update(t.Context(), c); err == nil || !strings.Contains(err.Error(), "volumes do not shrink below status.volumeSizes.node") {
		t.Fatal(err)
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

// The name that a load balancer tells of itself is one by which clients may ask.
func TestLoadBalancerNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, nodes: {count: 3}, service: {type: LoadBalancer}}")
	w.pass()
	door := &corev1.Service{}
	w.must(w.api.Get(t.Context(), w.key(clusterName), door))
	before := door.DeepCopy()
	door.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "z.example.net"}, {IP: "10.0.0.9"}, {Hostname: "a.example.net"}}
	w.must(w.api.Status().Patch(t.Context(), door, client.MergeFrom(before)))
	w.pass()
	args := w.deployment("demo-router").Spec.Template.Spec.Containers[0].Args
	if want := "--http-hosts=demo." + w.namespace + ",a.example.net,z.example.net"; !slices.Contains(args, want) {
		t.Fatalf("want %s in %q", want, args)
	}
}
