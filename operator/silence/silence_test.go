package silence_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/envoy"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/silence"
)

// world is pods, of which some machines are silent.
type world struct {
	*testing.T
	client.Client
	silent map[string]bool // by address
	watch  *silence.Watch
	before func() error // each write of a status
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, silent: map[string]bool{}, before: func() error { return nil }}
	w.Client = fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, part string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := w.before(); err != nil {
				return err
			}
			return c.SubResource(part).Patch(ctx, o, patch, options...)
		},
	}).Build()
	takenOut, err := silence.NewTakenOut(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.watch = &silence.Watch{Client: w, Log: slog.New(slog.DiscardHandler), TakenOut: takenOut, Ask: w.ask}
	return w
}

// ask waits for a machine that is silent, as long as it may.
func (w *world) ask(ctx context.Context, address string) silence.Answer {
	host, _, err := net.SplitHostPort(address)
	if err != nil || ctx.Err() != nil {
		return silence.Silent
	}
	if w.silent[host] {
		<-ctx.Done()
		return silence.Silent
	}
	return silence.Heard
}

// add adds a pod on a machine of its own.
func (w *world) add(name, component, address string) {
	w.Helper()
	w.addOn("machine of "+name, name, component, address)
}

func (w *world) addOn(machine, name, component, address string) {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metrics", Name: name, UID: types.UID(name), Labels: map[string]string{
			build.LabelCluster: "demo", build.LabelComponent: component,
		}},
		Spec: corev1.PodSpec{NodeName: machine, Containers: []corev1.Container{{
			Name: component, Ports: []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: build.PortMetrics}},
		}}},
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

func TestSilentPod(t *testing.T) { synctest.Test(t, testSilentPod) }

func testSilentPod(t *testing.T) {
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
	if n := testutil.ToFloat64(w.watch.TakenOut.WithLabelValues("metrics", "demo")); n != 2 {
		t.Errorf("%v pods were taken out", n)
	}
}

// An operator that hears nobody of a component is cut off from it, or there is nobody better.
func TestAllSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("a", build.ComponentEnvoy, "10.0.0.1")
		w.add("b", build.ComponentEnvoy, "10.0.0.2")
		for _, name := range []string{"r", "s", "t"} { // another component does not count
			w.add(name, build.ComponentRouter, "10.0.0."+name)
		}
		w.look(1, nil)
		w.silent["10.0.0.1"], w.silent["10.0.0.2"] = true, true
		w.look(5, map[string]bool{"a": true, "b": true})
	})
}

// An operator that only hears its own machine, or few, is cut off itself.
func TestMostSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("here", build.ComponentEnvoy, "10.0.0.1")
		w.add("b", build.ComponentEnvoy, "10.0.0.2")
		w.add("c", build.ComponentEnvoy, "10.0.0.3")
		w.look(1, nil)
		w.silent["10.0.0.2"], w.silent["10.0.0.3"] = true, true
		w.look(5, map[string]bool{"here": true, "b": true, "c": true})
		w.silent["10.0.0.3"] = false
		w.look(1, map[string]bool{"here": true, "b": false, "c": true})
	})
}

// A pod that never answered may be kept from that by a rule of the network.
func TestNeverHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("a", build.ComponentEnvoy, "10.0.0.1")
		w.add("b", build.ComponentEnvoy, "10.0.0.2")
		w.silent["10.0.0.1"] = true
		w.look(5, map[string]bool{"a": true, "b": true})
	})
}

// Those that are asked after many that are silent have their time, too.
func TestManySilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 100 {
			w.addOn("lost", fmt.Sprintf("lost-%d", i), build.ComponentEnvoy, fmt.Sprintf("10.0.1.%d", i))
		}
		w.add("other", build.ComponentEnvoy, "10.0.2.1")
		w.look(1, nil)
		for i := range 100 {
			w.silent[fmt.Sprintf("10.0.1.%d", i)] = true
		}
		w.look(2, map[string]bool{"lost-0": false, "lost-99": false, "other": true})
	})
}

// An operator that did not run, or could not ask, knows nothing of others.
func TestUnknown(t *testing.T) {
	for name, fail := range map[string]func() silence.Answer{
		"late":      func() silence.Answer { time.Sleep(2 * time.Second); return silence.Silent },
		"could not": func() silence.Answer { return silence.Unknown },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.add("a", build.ComponentEnvoy, "10.0.0.1")
				w.add("b", build.ComponentEnvoy, "10.0.0.2")
				w.look(1, nil)
				w.watch.Ask = func(ctx context.Context, address string) silence.Answer {
					if address == "10.0.0.1:"+strconv.Itoa(envoy.StatusPortDefault) {
						return fail()
					}
					return w.ask(ctx, address)
				}
				w.look(5, map[string]bool{"a": true, "b": true})
			})
		})
	}
}

// A pod that another operator wrote to meanwhile is looked at again, and that is no failure.
func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("a", build.ComponentEnvoy, "10.0.0.1")
		w.add("b", build.ComponentEnvoy, "10.0.0.2")
		w.look(1, nil)
		w.silent["10.0.0.1"] = true
		conflicts := 0
		w.before = func() error {
			if conflicts++; conflicts > 1 {
				return nil
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", nil)
		}
		w.look(2, map[string]bool{"a": true})
		w.look(1, map[string]bool{"a": false})
	})
}

func TestDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if is := silence.Dial(t.Context(), address); is != silence.Heard {
		t.Errorf("a listener: %d", is)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if is := silence.Dial(t.Context(), address); is != silence.Heard {
		t.Errorf("a refusal: %d", is)
	}
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if is := silence.Dial(expired, address); is != silence.Silent {
		t.Errorf("in no time: %d", is)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if is := silence.Dial(ended, address); is != silence.Unknown {
		t.Errorf("when the operator ends: %d", is)
	}
	if is := silence.Dial(t.Context(), "127.0.0.1:none"); is != silence.Unknown {
		t.Errorf("what is no address: %d", is)
	}
}
