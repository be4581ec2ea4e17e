package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/reconcile"
)

// class asks for a storage class for nodes, which is made if it is not there.
func (w *world) class(name string) {
	w.t.Helper()
	w.makeClass(name)
	w.askClass(name)
}

// makeClass makes a storage class if it is not there. Its volumes can grow.
func (w *world) makeClass(name string) {
	w.t.Helper()
	grows := true
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "test.example/disks", AllowVolumeExpansion: &grows}
	if !w.found(w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, &storagev1.StorageClass{})) {
		w.must(w.api.Create(w.t.Context(), class))
		w.t.Cleanup(func() { _ = w.api.Delete(w.background, class) })
	}
}

// askClass asks for a storage class, whether there is one or not.
func (w *world) askClass(name string) {
	w.t.Helper()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Storage.StorageClassName = &name })
}

// nodeClaims returns the claims of nodes by name.
func (w *world) nodeClaims() map[string]corev1.PersistentVolumeClaim {
	w.t.Helper()
	var list corev1.PersistentVolumeClaimList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(w.namespace)))
	claims := map[string]corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "data-demo-node-") {
			claims[list.Items[i].Name] = list.Items[i]
		}
	}
	return claims
}

// classesOf returns the storage classes of the first claims of nodes.
func (w *world) classesOf(nodes int) (classes []string) {
	w.t.Helper()
	claims := w.nodeClaims()
	for ordinal := range nodes {
		if class := claims[fmt.Sprintf("data-demo-node-%d", ordinal)].Spec.StorageClassName; class != nil {
			classes = append(classes, *class)
		} else {
			classes = append(classes, "")
		}
	}
	return classes
}

// all reports whether all nodes have volumes of a storage class, and the cluster is as asked for.
func (w *world) all(class string, nodes int) func() bool {
	return func() bool {
		return !slices.ContainsFunc(w.classesOf(nodes), func(is string) bool { return is != class }) && w.complete()
	}
}

// copies returns the least number of live full copies that a shard has.
func (w *world) copies() int {
	w.t.Helper()
	least := 1 << 10
	for _, row := range w.view().Map.Rows {
		live := 0
		for _, m := range row.Members {
			if m.Role == shardmap.Full && w.live(m) {
				live++
			}
		}
		least = min(least, live)
	}
	return least
}

// Volumes are replaced one at a time by such of another storage class: no shard ever has fewer
// copies than it is to have, nodes keep their names, and only nodes whose volume is replaced are
// restarted.
func TestStorageClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	fast := w.namespace + "-fast"
	w.class(fast)
	done := w.all(fast, 4)
	w.until("volumes are replaced", func() bool {
		if is := w.copies(); is < 2 {
			t.Fatalf("a shard has %d live copies", is)
		}
		drained := 0
		for _, desired := range w.view().Desired {
			if desired == shardmap.Draining {
				drained++
			}
		}
		if drained > 1 {
			t.Fatalf("nodes are emptied together: %v", w.view().Desired)
		}
		return done()
	})
	if claims := w.claims(); len(claims) != 4 {
		t.Fatalf("claims in the end: %v", claims)
	}
	if told := w.events("ReplacingVolume"); len(told) < 5 || !strings.Contains(strings.Join(told, "\n"), "storage class "+fast) {
		t.Fatalf("told: %q", told)
	}
	if slices.Contains(w.cluster().Finalizers, reconcile.Finalizer) {
		t.Fatal("the finalizer stays, and all volumes are kept")
	}
	for range 5 {
		w.step()
	}
	if told := w.events("ReplacingVolume"); len(told) > 0 {
		t.Fatalf("it goes on: %q", told)
	}
}

// Where as many nodes are asked for as there are copies, another one takes part until the last
// volume is replaced.
func TestStorageClassSpareNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 3, nodes: {count: 3, storage: {deletionPolicy: Delete}}}")
	w.until("the cluster is made", w.complete)
	fast := w.namespace + "-fast"
	w.class(fast)
	w.until("it says that a machine is missing", func() bool {
		c := w.condition(v1alpha1.ConditionProgressing)
		return c.Reason == "ReplacingVolume" && strings.Contains(c.Message, "no machine has room for it: add one")
	})
	if w.copies() < 3 {
		t.Fatal("copies are missing")
	}
	w.addMachine("z3")
	done := w.all(fast, 3)
	w.until("volumes are replaced", func() bool {
		if is := w.copies(); is < 3 {
			t.Fatalf("a shard has %d live copies", is)
		}
		return done()
	})
	w.until("the volume of the spare node goes", func() bool { return len(w.claims()) == 3 })
}

// Whoever changes their mind gets what they asked for last, at any moment.
func TestStorageClassChangeOfMind(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 2, 3, 5, 8, 13, 21} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 5)
			slow, fast := w.namespace+"-slow", w.namespace+"-fast"
			w.create(fmt.Sprintf("{shards: 6, replication: 2, nodes: {count: 4, storage: {storageClassName: %s}}}", slow))
			w.class(slow)
			w.until("the cluster is made", w.complete)
			w.class(fast)
			for range after {
				w.step()
			}
			w.class(slow)
			w.step()
			w.until("it is as before", w.all(slow, 4))
			for node, desired := range w.view().Desired {
				if desired != shardmap.Active {
					t.Errorf("%s is %s", node, desired)
				}
			}
		})
	}
}

// Volumes that were there with another class than the resource names, as an older operator or a
// person left them, stay until somebody asks for a change.
func TestStorageClassOfClaimsMadeByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	slow, fast, other := w.namespace+"-slow", w.namespace+"-fast", w.namespace+"-other"
	w.create(fmt.Sprintf("{shards: 6, replication: 2, nodes: {count: 4, storage: {storageClassName: %s}}}", slow))
	w.must(w.api.Create(w.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-demo-node-0", Namespace: w.namespace, Labels: build.Labels(w.cluster(), build.ComponentNode)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &other, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}))
	w.class(slow)
	w.until("the cluster is made", w.complete)
	for range 10 {
		w.step()
	}
	if is := w.classesOf(4); !slices.Equal(is, []string{other, slow, slow, slow}) || len(w.view().Desired) > 0 {
		t.Fatalf("nobody asked for it: %v %v", is, w.view().Desired)
	}
	w.class(fast)
	w.until("it is asked for", w.all(fast, 4))
}

// A class that does not exist is told of, and nothing is emptied for it.
func TestStorageClassMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	missing := w.namespace + "-missing"
	w.askClass(missing)
	w.until("it is told", func() bool {
		c := w.condition(v1alpha1.ConditionProgressing)
		return c.Reason == "StorageClassMissing" && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, missing)
	})
	if desired := w.view().Desired; len(desired) > 0 {
		t.Fatalf("emptied: %v", desired)
	}
	w.class(missing)
	w.until("volumes are replaced", w.all(missing, 4))
}

// Volumes are replaced in maintenance windows.
func TestStorageClassWaitsForWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	opens := w.now.UTC().Truncate(time.Minute).Add(2 * time.Hour)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) {
		s.Maintenance = &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Schedule: opens.Format("4 15 * * *"), Duration: "1h"}}}
	})
	fast := w.namespace + "-fast"
	w.class(fast)
	w.until("it waits", func() bool {
		c := w.condition(v1alpha1.ConditionProgressing)
		return c.Reason == "MaintenanceWindow" && strings.Contains(c.Message, "node")
	})
	for range 10 {
		w.step()
	}
	if desired := w.view().Desired; len(desired) > 0 || slices.Contains(w.classesOf(4), fast) {
		t.Fatalf("it does not wait: %v %v", desired, w.classesOf(4))
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Maintenance = nil })
	w.until("volumes are replaced", w.all(fast, 4))
}

// A cluster that is deleted while its StatefulSet is made anew leaves no pods.
func TestStorageClassThenDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, nodes: {count: 4}}")
	w.until("the cluster is made", w.complete)
	w.class(w.namespace + "-fast")
	set := &appsv1.StatefulSet{}
	for w.found(w.api.Get(w.t.Context(), w.key("demo-node"), set)) {
		if set.DeletionTimestamp != nil {
			w.controllers()
			continue
		}
		w.pass()
	}
	w.must(w.api.Delete(w.t.Context(), w.cluster()))
	w.pass()
	w.must(client.IgnoreNotFound(w.api.Delete(w.t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "demo-etcd", Namespace: w.namespace}})))
	for range 20 {
		w.controllers()
		w.pass()
		if err := w.api.Get(w.t.Context(), w.key(clusterName), &v1alpha1.TickMeshCluster{}); !w.found(err) {
			break
		}
	}
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: build.ComponentNode}))
	if len(pods.Items) > 0 {
		t.Fatalf("%d pods are left", len(pods.Items))
	}
	if claims := w.claims(); len(claims) != 4 {
		t.Fatalf("volumes are not kept: %v", claims)
	}
}
