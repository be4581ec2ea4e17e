package controller_test

import (
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

// images returns the images of a component's pods, or of its template if it has none.
func (w *world) images(component string) (images []string) {
	w.t.Helper()
	if component == build.ComponentRouter || component == build.ComponentEnvoy {
		return []string{w.deployment(clusterName + "-" + component).Spec.Template.Spec.Containers[0].Image}
	}
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: component}))
	for i := range pods.Items {
		images = append(images, pods.Items[i].Spec.Containers[0].Image)
	}
	return images
}

// A new image reaches etcd, nodes and routers one after the other, and one pod after the
// other, whatever kills the operator meanwhile. Each waits until the one before is ready.
func TestUpgradeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:next" })
	components := []string{build.ComponentEtcd, build.ComponentNode, build.ComponentRouter}
	newImages := func(component string) (old, updated int) {
		for _, image := range w.images(component) {
			if image == "tickmesh:next" {
				updated++
			} else {
				old++
			}
		}
		return old, updated
	}
	for range stepsMax {
		w.newOperator(0)
		if w.step(); w.complete() && w.cluster().Status.Version == "next" {
			break
		}
		for i, component := range components[1:] {
			if _, updated := newImages(component); updated == 0 {
				continue
			}
			for _, earlier := range components[:i+1] {
				if old, _ := newImages(earlier); old > 0 {
					t.Fatalf("%s changes while %d of %s are old", component, old, earlier)
				}
			}
		}
	}
	if !w.complete() || w.cluster().Status.Version != "next" || !slices.Equal(w.images(build.ComponentRouter), []string{"tickmesh:next"}) {
		t.Fatalf("%+v", w.cluster().Status)
	}
}

// A version that must not follow the one that runs changes nothing, and the condition says
// what to do. A person may allow it by name.
func TestVersionRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{image: 'tickmesh:0.2.0', shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	for image, remedy := range map[string]string{"tickmesh:0.1.9": "go forward to a later version", "tickmesh:0.4.0": "upgrade to 0.3 first"} {
		w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = image })
		for range 5 {
			w.step()
		}
		c := w.condition(v1alpha1.ConditionProgressing)
		if c.Status != metav1.ConditionFalse || c.Reason != "VersionRefused" || !strings.Contains(c.Message, remedy) {
			t.Fatalf("%s: %+v", image, c)
		}
		for _, component := range []string{build.ComponentEtcd, build.ComponentNode, build.ComponentRouter} {
			for _, is := range w.images(component) {
				if is != "tickmesh:0.2.0" {
					t.Fatalf("%s became %s", component, is)
				}
			}
		}
	}
	if len(w.events("VersionRefused")) != 1 {
		t.Fatal("no event tells of it")
	}
	// A pod that is lost meanwhile comes back as it was, and nodes can be added.
	w.addMachine("z0")
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 4 })
	w.must(w.api.Delete(t.Context(), w.pod("demo-node-0"), client.GracePeriodSeconds(0)))
	w.stopProcess("demo-node-0")
	w.until("four nodes of the version that runs are ready", func() bool {
		return w.cluster().Status.ReadyNodes == 4 && w.cluster().Status.Version == "0.2.0"
	})
	c := w.cluster()
	c.Annotations = map[string]string{v1alpha1.AnnotationAllowVersion: "0.4.0"}
	c.Spec.Image = "tickmesh:0.4.0"
	w.must(w.api.Update(t.Context(), c))
	w.until("it is allowed", func() bool { return w.complete() && w.cluster().Status.Version == "0.4.0" })
}

// An image that runs already is not refused for its tag, which may count otherwise than the
// versions of the program.
func TestVersionThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.program = "0.1.0"
	w.create("{image: 'tickmesh:2026.11.23', shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "90d" })
	w.until("what spec asks for is there", func() bool {
		return w.complete() && slices.Contains(w.pod("demo-node-0").Spec.Containers[0].Args, "--retention=90d")
	})
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:2026.11.24" })
	w.until("another one is refused", func() bool { return w.condition(v1alpha1.ConditionProgressing).Reason == "VersionRefused" })
}

// A cluster that waits for a person, or is being deleted, lets others take their turn.
func TestTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{image: 'tickmesh:0.2.0', shards: 6, replication: 2, nodes: {count: 3, storage: {deletionPolicy: Delete}}}")
	w.until("the cluster is made", w.complete)
	for _, end := range []func(){
		func() { w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:0.1.9" }) },
		func() { w.must(w.api.Delete(t.Context(), w.cluster())) },
	} {
		if wait := w.turns.Take(w.namespace+"/"+clusterName, true, w.now); wait != "" {
			t.Fatal(wait)
		}
		end()
		w.pass()
		w.cluster() // it is still there
		if wait := w.turns.Take("another", false, w.now.Add(time.Hour)); wait != "" {
			t.Fatal(wait)
		}
		w.turns.Done("another", w.now)
	}
}

// What a new operator changes reaches a cluster only when it is its turn; what the spec asks
// for does at once.
func TestUpgradeOfTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.release = "old"
	w.newOperator(0)
	w.create(small)
	w.until("the cluster is made", w.complete)
	// As an older operator has left it, which made other pods.
	for _, object := range []client.Object{w.statefulSet("demo-node"), w.deployment("demo-router")} {
		before := object.DeepCopyObject().(client.Object)
		object.GetAnnotations()["tickmesh.dev/template"] = "another"
		w.must(w.api.Patch(t.Context(), object, client.MergeFrom(before)))
	}
	w.release = "new"
	w.newOperator(0)
	began := w.now
	w.pass()
	if c := w.condition(v1alpha1.ConditionProgressing); c.Reason != "Updating" || !strings.Contains(c.Message, "a new operator changes one cluster after the other") {
		t.Fatalf("%+v", c)
	}
	if release := w.statefulSet("demo-node").Annotations["tickmesh.dev/release"]; release != "old" {
		t.Fatalf("%q has changed it", release)
	}
	w.until("its turn comes", w.complete)
	if waited := w.now.Sub(began); waited < time.Minute-3*time.Second {
		t.Fatalf("it came after %s", waited)
	}
	for _, object := range []client.Object{w.statefulSet("demo-node"), w.statefulSet("demo-etcd"), w.deployment("demo-router")} {
		if release := object.GetAnnotations()["tickmesh.dev/release"]; release != "new" {
			t.Fatalf("%T: %q", object, release)
		}
	}
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Retention = "90d" })
	w.until("what spec asks for is there", func() bool {
		return w.complete() && slices.Contains(w.statefulSet("demo-node").Spec.Template.Spec.Containers[0].Args, "--retention=90d")
	})
}

// The newest version that has run counts, also when the nodes that ran it are away.
func TestNewestVersionCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{image: 'tickmesh:0.2.0', shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	for machine := range w.machines {
		w.setMachine(machine, false)
	}
	w.step()
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:0.1.9" })
	for range 5 {
		w.step()
	}
	if image := w.statefulSet("demo-node").Spec.Template.Spec.Containers[0].Image; image != "tickmesh:0.2.0" {
		t.Fatalf("%s: %+v", image, w.cluster().Status)
	}
	// A person who has gone back stays there: what ran before that does not count any more.
	for machine := range w.machines {
		w.setMachine(machine, true)
	}
	c := w.cluster()
	c.Annotations = map[string]string{v1alpha1.AnnotationAllowVersion: "0.1.9"}
	w.must(w.api.Update(t.Context(), c))
	w.until("it is allowed", func() bool { return w.complete() && w.cluster().Status.Version == "0.1.9" })
	w.step()
	c = w.cluster()
	c.Annotations = nil
	c.Spec.Image = "tickmesh:0.1.10"
	w.must(w.api.Update(t.Context(), c))
	w.until("it goes on from there", func() bool { return w.complete() && w.cluster().Status.Version == "0.1.10" })
}

// A status of an operator that told only what runs names the newest version, too: nodes that are
// away when the next operator starts are not forgotten.
func TestNewestVersionOfAnOlderOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{image: 'tickmesh:0.2.0', shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	for machine := range w.machines {
		w.setMachine(machine, false)
	}
	w.controllers()
	w.runMesh()
	c := w.cluster()
	c.Status.NewestVersion = ""
	w.must(w.api.Status().Update(t.Context(), c))
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = "tickmesh:0.1.9-mirror1" })
	for range 5 {
		w.step()
	}
	if image := w.statefulSet("demo-node").Spec.Template.Spec.Containers[0].Image; image != "tickmesh:0.2.0" || w.cluster().Status.NewestVersion != "0.2.0" {
		t.Fatalf("%s: %+v", image, w.cluster().Status)
	}
}
