package controller_test

import (
	"flag"
	"fmt"
	"testing"

	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func request(w *world) ctrlreconcile.Request {
	return ctrlreconcile.Request{NamespacedName: w.key(clusterName)}
}

// everyWrite makes the tests kill the operator at every write; without it they leave out
// most. It takes about six minutes on four cores.
var everyWrite = flag.Bool("every-write", false, "kill the operator at every write, not at some")

// stride is how far apart the writes are at which the operator is killed.
func stride() int {
	if *everyWrite {
		return 1
	}
	return 7
}

// killAt runs an operator that is killed after n writes, and then another one, until
// what was asked for is there. It says whether the first one was killed.
func (w *world) killAt(n int) (killed bool) {
	w.t.Helper()
	w.newOperator(n)
	for range stepsMax {
		if w.step() {
			killed = true
			break
		}
		if w.complete() {
			break
		}
	}
	w.newOperator(0)
	w.step() // the status of before may say that all is well
	w.until(fmt.Sprintf("it is done after the operator was killed at write %d", n), w.complete)
	return killed
}

// An operator can be killed between any two writes while it makes a cluster.
func TestKilledWhileCreating(t *testing.T) {
	t.Parallel()
	const lanes = 2 // at a time
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for n := 1 + lane; ; n += lanes * stride() {
				w := newWorld(t, 3)
				w.create(small)
				if !w.killAt(n) {
					return
				}
				if testing.Short() {
					return
				}
			}
		})
	}
}

// An operator can be killed between any two writes while nodes come and go, are
// restarted, and machines are lost.
func TestKilledWhileChanging(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(w *world, round int)
	}{
		{"out and in", func(w *world, round int) { w.count(int32(3 + (round+1)%2*2)) }},
		{"out and in, claims deleted", func(w *world, round int) {
			w.change(func(s *v1alpha1.TickMeshClusterSpec) {
				s.Nodes.Count, s.Nodes.Storage.DeletionPolicy = int32(3+(round+1)%2*2), v1alpha1.DeletionPolicyDelete
			})
		}},
		{"upgrade", func(w *world, round int) {
			w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = fmt.Sprintf("tickmesh:%d", round) })
		}},
		{"another storage class", func(w *world, round int) {
			w.class(fmt.Sprintf("%s-%d", w.namespace, round%2))
		}},
		{"machine lost", func(w *world, round int) {
			w.addMachine("z")
			w.removeMachine(w.machineOf(fmt.Sprintf("demo-node-%d", round%3)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 5)
			w.create(small)
			w.until("the cluster is made", w.complete)
			survived := 0
			for n, round := 1, 1; survived < 2; n, round = n+stride(), round+1 { // both directions were done without a death
				c.change(w, round)
				if w.killAt(n) {
					survived = 0
				} else {
					survived++
				}
				if testing.Short() && round > 1 {
					return
				}
			}
		})
	}
}
