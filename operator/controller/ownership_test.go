package controller_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// foreignSet makes a StatefulSet of somebody else.
func (w *world) foreignSet(name string) *appsv1.StatefulSet {
	w.t.Helper()
	labels := map[string]string{"app": "mine"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	replicas := int32(0)
	set.Spec = appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "theirs"}}}},
	}
	w.must(w.api.Create(w.t.Context(), set))
	return set
}

// What others have under one of our names is neither changed nor deleted, and told of. Once
// it is out of the way the cluster is made.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.failing = "Objects"
	theirs := w.foreignSet("demo-node")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: w.namespace}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "mine"}, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
	}}
	w.must(w.api.Create(t.Context(), service))
	w.create(small)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	for range 3 {
		w.step()
	}
	degraded := w.condition(v1alpha1.ConditionDegraded)
	if degraded.Reason != "NameTaken" || !strings.Contains(degraded.Message, "StatefulSet demo-node exists and does not belong to this cluster, so it is left alone: delete it, give the cluster another name, or hand it over") ||
		!strings.Contains(degraded.Message, "Service demo exists") {
		t.Fatalf("%+v", degraded)
	}
	unchanged := func() {
		t.Helper()
		for _, before := range []client.Object{theirs, service} {
			after := before.DeepCopyObject().(client.Object)
			w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(before), after))
			if after.GetGeneration() != before.GetGeneration() || len(after.GetOwnerReferences()) > 0 || after.GetLabels()[build.LabelCluster] != "" || after.GetDeletionTimestamp() != nil {
				t.Fatalf("%T was changed: %+v", after, after)
			}
		}
	}
	unchanged()
	w.must(w.api.Delete(t.Context(), w.cluster()))
	for range 5 {
		if w.found(w.api.Get(t.Context(), w.key(clusterName), &v1alpha1.TickMeshCluster{})) {
			w.pass()
			w.controllers()
		}
	}
	unchanged()
}

// What another cluster left over, or a person has handed over, becomes the cluster's.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.failing = "Objects"
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: w.namespace}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "mine"}, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
	}}
	w.must(w.api.Create(t.Context(), service))
	w.create(small)
	w.until("the rest is made", func() bool { return w.condition(v1alpha1.ConditionAvailable).Status == metav1.ConditionTrue })
	if w.condition(v1alpha1.ConditionDegraded).Reason != "NameTaken" {
		t.Fatalf("%+v", w.cluster().Status)
	}
	before := service.DeepCopy()
	service.Labels = map[string]string{build.LabelManagedBy: "tickmesh-operator", build.LabelCluster: clusterName}
	w.must(w.api.Patch(t.Context(), service, client.MergeFrom(before)))
	w.until("all is as asked for", w.complete)
	w.must(w.api.Get(t.Context(), w.key(clusterName), service))
	if !metav1.IsControlledBy(service, w.cluster()) {
		t.Fatal("it is not the cluster's")
	}
}

// lease makes or renews the lease of the operator of a namespace; age is how long ago.
func (w *world) lease(namespace string, age time.Duration) {
	w.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ownership.LeaseName, Namespace: namespace}}
	_ = client.IgnoreNotFound(w.api.Delete(w.t.Context(), lease.DeepCopy()))
	holder, seconds := "pod", int32(15)
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: w.now.Add(-age)}}
	w.must(w.api.Create(w.t.Context(), lease))
}

// Of two operators that look after one namespace only the first acts, whatever the other was
// installed with. The second takes over when the first is gone, and keeps the cluster then.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	first, second := apiServer.namespace(t), apiServer.namespace(t)
	w.home = first
	w.newOperator(0)
	w.create(small)
	w.until("the cluster is made", w.complete)
	if holder := w.cluster().Status.Operator; holder != first {
		t.Fatalf("%q acts", holder)
	}
	w.lease(first, 0)
	w.home = second
	w.newOperator(0)
	before := w.cluster()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:next" })
	set := w.statefulSet("demo-node").ResourceVersion
	for range 3 {
		w.pass()
	}
	after := w.cluster()
	if w.life.writes > 0 || after.Status.Operator != first || after.Status.ObservedGeneration != before.Status.ObservedGeneration || w.statefulSet("demo-node").ResourceVersion != set {
		t.Fatalf("%d writes of an operator that another one excludes: %+v", w.life.writes, after.Status)
	}
	if told := w.events("AnotherOperator"); len(told) != 1 || !strings.Contains(told[0], "the operator in namespace "+first+" acts for this cluster") {
		t.Fatalf("%q", told)
	}

	w.lease(first, 2*time.Minute)
	w.until("the second takes over", func() bool { return w.complete() && w.cluster().Status.Version == "next" })
	if holder := w.cluster().Status.Operator; holder != second {
		t.Fatalf("%q acts", holder)
	}
	w.lease(first, 0)
	w.lease(second, 0)
	w.home = first
	w.newOperator(0)
	if w.pass(); w.life.writes > 0 {
		t.Fatal("the first one acts again")
	}
}

// Clusters of one name that share an etcd keep their shard maps apart by namespace. One
// that an older operator has made keeps the name that its nodes were started with.
func TestSharedEtcd(t *testing.T) {
	t.Parallel()
	const external = "{shards: 6, replication: 2, nodes: {count: 3}, etcd: {external: {endpoints: ['http://etcd.example.com:2379']}}, tls: {mode: 'Off'}}"
	names := map[string]bool{}
	for range 2 {
		w := newWorld(t, 3)
		w.create(external)
		w.pass()
		name := w.cluster().Status.StoreName
		if !strings.HasPrefix(name, "demo-") || w.target.Cluster != "" && w.target.Cluster != name {
			t.Fatalf("%q, and the operator asks for %q", name, w.target.Cluster)
		}
		w.pass()
		if arguments := strings.Join(w.statefulSet("demo-node").Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(arguments, "--cluster="+name+" ") {
			t.Fatalf("%s: %s", name, arguments)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Fatalf("%v", names)
	}

	w := newWorld(t, 3)
	w.create(external)
	c := w.cluster()
	before := c.DeepCopy()
	c.Status.StoreName = clusterName // as an older operator had it, which wrote nothing down
	w.must(w.api.Status().Patch(t.Context(), c, client.MergeFrom(before)))
	w.pass()
	c = w.cluster()
	before = c.DeepCopy()
	c.Status.StoreName = ""
	w.must(w.api.Status().Patch(t.Context(), c, client.MergeFrom(before)))
	w.pass()
	if name := w.cluster().Status.StoreName; name != clusterName {
		t.Fatalf("it became %q", name)
	}
}
