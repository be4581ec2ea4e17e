//go:build !race

// What is here runs the code of the other tests again and again, by one goroutine in each world, so that the race detector,
// under which those run, would find nothing new in twice the time.

package controller_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

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
		// This takes longest, so it begins first.
		{"another storage class", func(w *world, round int) {
			w.class(fmt.Sprintf("%s-%d", w.namespace, round%2))
		}},
		{"out and in", func(w *world, round int) { w.count(int32(3 + (round+1)%2*2)) }},
		{"out and in, claims deleted", func(w *world, round int) {
			w.change(func(s *v1alpha1.TickMeshClusterSpec) {
				s.Nodes.Count, s.Nodes.Storage.DeletionPolicy = int32(3+(round+1)%2*2), v1alpha1.DeletionPolicyDelete
			})
		}},
		{"upgrade", func(w *world, round int) {
			w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Image = fmt.Sprintf("tickmesh:%d", round) })
		}},
		{"groups come and go", func(w *world, round int) {
			group := []v1alpha1.NodeGroup{{Name: []string{"arm", "big"}[round/2%2], Count: 2}}
			w.change(func(s *v1alpha1.TickMeshClusterSpec) {
				s.NodeGroups, s.Nodes.Storage.DeletionPolicy = group[:round%2], v1alpha1.DeletionPolicyDelete // there are five machines
			})
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

// An operator can be killed between any two writes while a new etcd is made.
func TestKilledWhileEtcdIsRebuilt(t *testing.T) {
	t.Parallel()
	const lanes = 3 // at a time
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for n := 1 + lane*stride(); rebuiltAfterDeath(t, n) && !testing.Short(); n += lanes * stride() {
			}
		})
	}
}

// rebuiltAfterDeath kills the operator at a write after etcd was lost, and lets another one
// go on. It says whether the first one made so many writes.
func rebuiltAfterDeath(t *testing.T, write int) (killed bool) {
	t.Helper()
	r := newRebuilding(t, 7)
	r.lose("demo-etcd-0", "demo-etcd-1")
	r.newOperator(write)
	for range stepsMax {
		if killed = r.step(); killed || r.recovered() {
			break
		}
		r.now = r.now.Add(time.Minute)
	}
	r.newOperator(0)
	r.now = r.now.Add(11 * time.Minute)
	r.until(fmt.Sprintf("it is done after the operator was killed at write %d", write), r.recovered)
	return killed
}
