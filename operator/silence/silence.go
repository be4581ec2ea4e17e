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

	corev1 "k8s.io/api/core/v1"
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
	// dialsMax bounds the connections that are made at once.
	dialsMax = 64
)

// Reason is that of the condition Ready of a pod that was taken out.
const Reason = "MachineSilent"

// Watch looks at the pods that clients are led to.
type Watch struct {
	Client client.Client // reads of its cache
	// Answers reports whether a machine answers at an address, be it by a refusal.
	Answers func(ctx context.Context, address string) bool
	Log     *slog.Logger

	known map[types.UID]pod
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
	var pods []*corev1.Pod
	for _, component := range []string{build.ComponentEnvoy, build.ComponentRouter} {
		var list corev1.PodList
		if err := w.Client.List(ctx, &list, client.MatchingLabels{build.LabelComponent: component}, client.HasLabels{build.LabelCluster}); err != nil {
			return err
		}
		for i := range list.Items {
			if p := &list.Items[i]; addressOf(p) != "" && p.DeletionTimestamp == nil && inventory.IsReady(p) {
				pods = append(pods, p)
			}
		}
	}
	answers := w.ask(ctx, pods)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	heard := map[group]bool{}
	now := make(map[types.UID]pod, len(pods))
	for i, p := range pods {
		is := w.known[p.UID]
		if is.silent++; answers[i] {
			is = pod{answered: true}
			heard[groupOf(p)] = true
		}
		now[p.UID] = is
	}
	w.known = now
	var failed []error
	for _, p := range pods {
		// One that was never heard may be kept from answering by a rule of the network. Where no
		// other answers it is the operator that is cut off, or there is nobody better.
		if is := now[p.UID]; is.answered && is.silent >= silentMax && heard[groupOf(p)] {
			if err := w.takeOut(ctx, p); client.IgnoreNotFound(err) != nil {
				failed = append(failed, err)
				continue
			}
			now[p.UID] = pod{}
		}
	}
	return errors.Join(failed...)
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
func (w *Watch) ask(ctx context.Context, pods []*corev1.Pod) []bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answers := make([]bool, len(pods))
	places := make(chan struct{}, dialsMax)
	var asked sync.WaitGroup
	for i, p := range pods {
		places <- struct{}{}
		asked.Go(func() {
			defer func() { <-places }()
			answers[i] = w.Answers(ctx, addressOf(p))
		})
	}
	asked.Wait()
	return answers
}

// Dial is Watch.Answers by TCP.
func Dial(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
	}
	_ = conn.Close() // nothing was said
	return true
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
	w.Log.Warn("a pod is taken out of its Services, as its machine does not answer", "namespace", p.Namespace, "pod", p.Name, "machine", p.Spec.NodeName)
	return nil
}
