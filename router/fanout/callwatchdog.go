package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// callWatchdog cancels a call to a node that stops answering, so that a process that was
// stopped, or a machine that is gone, costs a call about a second instead of the more than
// ten that gRPC's keepalive takes. A node that is merely slow answers probes and is waited
// for. One that does not answer them is given up as soon as another node is known to lead
// one of the call's shards, or after Limits.ProbeTimeout.
type callWatchdog struct {
	cluster *Cluster
	node    *node
	shards  []uint16           // that the call reads
	cancel  context.CancelFunc // ends the call

	mu    sync.Mutex
	since time.Time // guarded by mu: when the call began to wait for the node; zero if it does not wait
	err   error     // guarded by mu: why the node was given up
}

// watch returns the context for a call to a node about shards, and the call's watchdog.
// The caller must call done after the call; it waits for the watchdog's goroutine.
func (c *Cluster) watch(ctx context.Context, n *node, shards ...uint16) (of context.Context, w *callWatchdog, done func()) {
	of, cancel := context.WithCancel(ctx)
	w = &callWatchdog{cluster: c, node: n, shards: shards, cancel: cancel}
	var watching sync.WaitGroup
	watching.Go(func() { w.run(of) })
	return of, w, func() {
		cancel()
		watching.Wait()
	}
}

// await calls receive, which waits for the node. The watchdog abandons a node only during
// await, so that processing an answer is never interrupted. Errors: those of receive, or
// series.ErrUnavailable if the node was given up.
func await[M any](w *callWatchdog, receive func() (M, error)) (M, error) {
	w.mu.Lock()
	w.since = time.Now()
	w.mu.Unlock()
	m, err := receive()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
	if w.err != nil {
		var none M
		return none, w.err
	}
	return m, err
}

// waiting returns when the call began to wait, or the zero time if it does not wait.
func (w *callWatchdog) waiting() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

func (w *callWatchdog) run(ctx context.Context) {
	limits := &w.cluster.options.Limits
	var (
		probe  <-chan error  // nil: none is under way
		probed time.Time     // what the call waited for when the probe began
		calm   time.Duration // after a probe that was answered
	)
	for timer := time.NewTimer(w.cluster.probeAfter(w.node)); ; {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case err := <-probe:
			probe = nil
			if isAbsence(err) && ctx.Err() == nil && w.giveUp(probed, wire.FromStatus(err)) {
				timer.Stop()
				return
			}
			// A live node may take long: probe it less and less often.
			calm = min(max(2*calm, limits.ProbeAfter), limits.AttemptTimeout)
			timer.Reset(calm)
			continue
		case <-timer.C:
		}
		since := w.waiting()
		waited, limit := time.Since(since), w.cluster.probeAfter(w.node)
		switch {
		case since.IsZero():
			timer.Reset(limits.ProbeAfter)
			continue
		case waited < limit && !w.node.leaders.silent.Load():
			timer.Reset(limit - waited)
			continue
		}
		w.cluster.doubt(w.node, w.shards...)
		if w.cluster.moved(w.node, w.shards...) && w.giveUp(since, errMoved) {
			return
		}
		if probe == nil {
			probe, probed = w.node.present(w.cluster), since
		}
		timer.Reset(min(leaderProbePause, limits.ProbeAfter))
	}
}

// errMoved: a node does not answer, and another one leads.
var errMoved = errors.New("another node leads a shard that it was asked for")

// giveUp cancels the call if it is still in the wait that began at since, and reports
// whether it did.
func (w *callWatchdog) giveUp(since time.Time, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.Equal(since) {
		return false
	}
	w.cluster.metrics.givenUp.Inc()
	w.err = fmt.Errorf("%w: node %s has said nothing for %v: %w", series.ErrUnavailable, w.node.id, time.Since(since).Round(time.Millisecond), err)
	w.cancel()
	return true
}
