// Package silence takes pods that clients are led to out of their Services when their machine says nothing. Kubernetes
// does the same, by the same condition, when it has not heard of a machine for 40 or 50 s: until then every connection
// that a Service makes may lead to a dead pod. Every operator looks, elected or not, so that the loss of one with its
// machine changes nothing where there are two.
//
// Nothing has to be put back: the kubelet of a machine that is there after all writes what is true within 10 s.
package silence

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/envoy"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

const (
	// interval is between two looks. Kernels answer a connection whatever their processes do, so that two
	// connections in a row that nobody answers in answerTime are enough.
	interval   = time.Second
	answerTime = time.Second
	silentMax  = 2
	// lateMax is how much later than that a connection may be given up. When it is later, this process did not run
	// meanwhile, and may have missed the answer.
	lateMax = answerTime / 4
	// dialsMax bounds the connections that are made at once. Each has all of answerTime.
	dialsMax = 64
	// writeTime bounds the writes of one look: the API server may have been lost, too.
	writeTime = 5 * time.Second
)

// Reason is that of the condition Ready of a pod that was taken out.
const Reason = "MachineSilent"

// Answer is what came of an attempt to connect.
type Answer int

// Answers. A refusal is one of a kernel, and so is heard.
const (
	Unknown Answer = iota // it failed for a reason that tells nothing of the other machine
	Silent
	Heard
)

// Watch looks at the pods that clients are led to.
type Watch struct {
	Client   client.Client // reads of its cache
	Ask      func(ctx context.Context, address string) Answer
	TakenOut *prometheus.CounterVec // of NewTakenOut
	Log      *slog.Logger

	known map[types.UID]pod
}

// NewTakenOut makes Watch.TakenOut and registers it. Errors: those of the registry.
func NewTakenOut(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "tickmesh_operator", Name: "silent_pods_total",
		Help: "Pods that were taken out of their Services, as their machines did not answer.",
	}, []string{"namespace", "cluster"})
	return c, registry.Register(c)
}

// pod is what is known of a pod.
type pod struct {
	answered bool // since it was taken out, or first seen
	silent   int  // looks since it answered
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Watch) NeedLeaderElection() bool { return false }

// Start looks until ctx ends. It implements manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			if err := w.Look(ctx); err != nil && ctx.Err() == nil {
				w.Log.Warn("pods that clients are led to are not known to be well", "error", err)
			}
		}
	}
}

// group is the pods of one component of a cluster.
type group struct{ namespace, cluster, component string }

// Look looks once.
func (w *Watch) Look(ctx context.Context) error {
	pods, err := w.readyPods(ctx)
	if err != nil {
		return err
	}
	answers := w.ask(ctx, pods)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	heard, machines := w.count(pods, answers)
	if !mostAre(machines) {
		return nil // it is the operator that is cut off
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	var failed []error
	for _, p := range pods {
		// One that was never heard may be kept from answering by a rule of the network. Where no
		// other answers it is the operator that is cut off, or there is nobody better.
		if is := w.known[p.UID]; is.answered && is.silent >= silentMax && heard[groupOf(p)] {
			switch err := w.takeOut(ctx, p); {
			case apierrors.IsConflict(err): // the pod was changed, maybe by another operator: the next look tells
			case client.IgnoreNotFound(err) != nil:
				failed = append(failed, err)
			default:
				w.known[p.UID] = pod{}
			}
		}
	}
	return errors.Join(failed...)
}

// readyPods returns the pods that Kubernetes sends requests to.
func (w *Watch) readyPods(ctx context.Context) (pods []*corev1.Pod, err error) {
	for _, component := range []string{build.ComponentEnvoy, build.ComponentRouter} {
		var list corev1.PodList
		if err := w.Client.List(ctx, &list, client.MatchingLabels{build.LabelComponent: component}, client.HasLabels{build.LabelCluster}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if p := &list.Items[i]; addressOf(p) != "" && p.DeletionTimestamp == nil && inventory.IsReady(p) {
				pods = append(pods, p)
			}
		}
	}
	return pods, nil
}

// count adds the answers of a look to what is known of the pods. It returns the groups of which one was heard, and of each
// machine with a pod that is or was heard whether one is heard now.
func (w *Watch) count(pods []*corev1.Pod, answers []Answer) (heard map[group]bool, machines map[string]bool) {
	heard, machines = map[group]bool{}, map[string]bool{}
	now := make(map[types.UID]pod, len(pods))
	for i, p := range pods {
		is := w.known[p.UID]
		switch answers[i] {
		case Heard:
			is = pod{answered: true}
			heard[groupOf(p)], machines[p.Spec.NodeName] = true, true
		case Silent:
			is.silent++
			if _, counted := machines[p.Spec.NodeName]; is.answered && !counted {
				machines[p.Spec.NodeName] = false
			}
		case Unknown:
		}
		now[p.UID] = is
	}
	w.known = now
	return heard, machines
}

// mostAre reports whether at least half of machines are heard.
func mostAre(heard map[string]bool) bool {
	are := 0
	for _, is := range heard {
		if is {
			are++
		}
	}
	return 2*are >= len(heard)
}

func groupOf(p *corev1.Pod) group {
	return group{p.Namespace, p.Labels[build.LabelCluster], p.Labels[build.LabelComponent]}
}

// addressOf returns where a pod answers everybody; empty: nowhere.
func addressOf(p *corev1.Pod) string {
	port := build.PortMetrics
	switch {
	case p.Status.PodIP == "":
		return ""
	case p.Labels[build.LabelComponent] == build.ComponentEnvoy:
		port = envoy.StatusPortDefault
	case !build.HasMetricsPort(&p.Spec):
		return ""
	}
	return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port))
}

// ask asks pods whether their machines answer.
func (w *Watch) ask(ctx context.Context, pods []*corev1.Pod) []Answer {
	answers := make([]Answer, len(pods))
	places := make(chan struct{}, dialsMax)
	var asked sync.WaitGroup
	for i, p := range pods {
		places <- struct{}{}
		asked.Go(func() {
			defer func() { <-places }()
			began := time.Now()
			bounded, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			answer := w.Ask(bounded, addressOf(p))
			if answer == Silent && time.Since(began) > answerTime+lateMax {
				answer = Unknown
			}
			answers[i] = answer
		})
	}
	asked.Wait()
	return answers
}

// Dial is Watch.Ask by TCP.
func Dial(ctx context.Context, address string) Answer {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	var failure net.Error
	switch {
	case err == nil:
		_ = conn.Close() // nothing was said
		return Heard
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return Heard
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.As(err, &failure) && failure.Timeout():
		return Silent
	}
	return Unknown // such as too few files or ports here
}

// takeOut says that a pod is not ready, unless it was changed meanwhile.
func (w *Watch) takeOut(ctx context.Context, p *corev1.Pod) error {
	changed := p.DeepCopy()
	for i := range changed.Status.Conditions {
		if c := &changed.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, Reason, metav1.Now()
			c.Message = "its machine does not answer the operator; others of the component do"
		}
	}
	if err := w.Client.Status().Patch(ctx, changed, client.StrategicMergeFrom(p, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	w.TakenOut.WithLabelValues(p.Namespace, p.Labels[build.LabelCluster]).Inc()
	w.Log.Warn("a pod is taken out of its Services, as its machine does not answer", "namespace", p.Namespace, "pod", p.Name, "machine", p.Spec.NodeName)
	return nil
}
