package silence_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/silence"
)

// world is pods, of which some machines are silent.
type world struct {
	*testing.T
	client.Client
	silent map[string]bool // by address
	watch  *silence.Watch
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Client: fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).Build(), silent: map[string]bool{}}
	w.watch = &silence.Watch{Client: w, Log: slog.New(slog.DiscardHandler), Answers: func(_ context.Context, address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err == nil && !w.silent[host]
	}}
	return w
}

func (w *world) add(name, component, address string) {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metrics", Name: name, UID: types.UID(name), Labels: map[string]string{
			build.LabelCluster: "demo", build.LabelComponent: component,
		}},
		Status: corev1.PodStatus{PodIP: address, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if err := w.Create(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
}

// look looks so many times, and checks which pods are ready then.
func (w *world) look(times int, ready map[string]bool) {
	w.Helper()
	for range times {
		if err := w.watch.Look(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	for name, want := range ready {
		if is := inventory.IsReady(w.pod(name)); is != want {
			w.Errorf("%s is ready: %v", name, is)
		}
	}
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: "metrics", Name: name}, pod); err != nil {
		w.Fatal(err)
	}
	return pod
}

// kubelet writes that a pod is ready, as it does within 10 s where it lives.
func (w *world) kubelet(name string) {
	w.Helper()
	pod := w.pod(name)
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := w.Status().Update(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
}

func TestSilentPod(t *testing.T) {
	w := newWorld(t)
	w.add("a", build.ComponentEnvoy, "10.0.0.1")
	w.add("b", build.ComponentEnvoy, "10.0.0.2")
	w.look(1, map[string]bool{"a": true, "b": true})
	w.silent["10.0.0.1"] = true
	w.look(1, map[string]bool{"a": true, "b": true}) // one answer may be lost
	w.look(1, map[string]bool{"a": false, "b": true})
	if c := w.pod("a").Status.Conditions; len(c) != 1 || c[0].Reason != silence.Reason {
		t.Errorf("%+v", c)
	}
	// Its kubelet is well, and only the way from here is not: it is not fought with.
	w.kubelet("a")
	w.look(5, map[string]bool{"a": true})
	w.silent["10.0.0.1"] = false
	w.look(1, map[string]bool{"a": true})
	w.silent["10.0.0.1"] = true
	w.look(2, map[string]bool{"a": false})
}

// An operator that hears nobody is cut off itself, or there is nobody better.
func TestAllSilent(t *testing.T) {
	w := newWorld(t)
	w.add("a", build.ComponentEnvoy, "10.0.0.1")
	w.add("b", build.ComponentEnvoy, "10.0.0.2")
	w.add("r", build.ComponentRouter, "10.0.0.3") // another component does not count
	w.look(1, nil)
	w.silent["10.0.0.1"], w.silent["10.0.0.2"] = true, true
	w.look(5, map[string]bool{"a": true, "b": true})
}

// A pod that never answered may be kept from that by a rule of the network.
func TestNeverHeard(t *testing.T) {
	w := newWorld(t)
	w.add("a", build.ComponentEnvoy, "10.0.0.1")
	w.add("b", build.ComponentEnvoy, "10.0.0.2")
	w.silent["10.0.0.1"] = true
	w.look(5, map[string]bool{"a": true, "b": true})
}

// A refusal is an answer of a kernel.
func TestDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if !silence.Dial(t.Context(), address) {
		t.Error("a listener does not answer")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if !silence.Dial(t.Context(), address) {
		t.Error("a refusal is no answer")
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if silence.Dial(ended, address) {
		t.Error("answered in no time")
	}
}
