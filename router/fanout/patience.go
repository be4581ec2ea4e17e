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

// patience watches one call to a node. A process that was stopped, or a machine that
// has gone, leaves connections on which nothing comes, and gRPC takes more than ten
// seconds to find out. A node that only takes its time answers when it is asked whether
// it is there, and is waited for. One that does not answer is given up as soon as
// somebody else is known to lead one of the call's shards, or after a while.
type patience struct {
	cluster *Cluster
	node    *node
	shards  []uint16           // that the call reads
	cancel  context.CancelFunc // ends the call

	mu    sync.Mutex
	since time.Time // guarded by mu: the call waits for the node since then; zero: it does not
	err   error     // guarded by mu: why the node was given up
}

// watch gives the context of a call to a node, for some shards, and its patience. The
// caller has to call done at the end; it waits for the watch to end.
func (c *Cluster) watch(ctx context.Context, n *node, shards ...uint16) (of context.Context, p *patience, done func()) {
	of, cancel := context.WithCancel(ctx)
	p = &patience{cluster: c, node: n, shards: shards, cancel: cancel}
	var watching sync.WaitGroup
	watching.Go(func() { p.run(of) })
	return of, p, func() {
		cancel()
		watching.Wait()
	}
}

// await waits for the node: only within it is the node given up, so that nobody who
// works with an answer is disturbed. Errors: those of receive, or series.ErrUnavailable
// when the node was given up.
func await[M any](p *patience, receive func() (M, error)) (M, error) {
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	m, err := receive()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
	if p.err != nil {
		var none M
		return none, p.err
	}
	return m, err
}

// waiting gives the time since when the call waits; zero: it does not.
func (p *patience) waiting() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

func (p *patience) run(ctx context.Context) {
	limits := &p.cluster.options.Limits
	var (
		probe  <-chan error  // nil: none is under way
		probed time.Time     // what the call waited for when the probe began
		calm   time.Duration // after a probe that was answered
	)
	for timer := time.NewTimer(p.cluster.patienceWith(p.node)); ; {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case err := <-probe:
			probe = nil
			if isAbsence(err) && ctx.Err() == nil && p.giveUp(probed, wire.FromStatus(err)) {
				timer.Stop()
				return
			}
			// A node that is there may take long: it is asked less and less often.
			calm = min(max(2*calm, limits.Patience), limits.AttemptTimeout)
			timer.Reset(calm)
			continue
		case <-timer.C:
		}
		since := p.waiting()
		waited, patience := time.Since(since), p.cluster.patienceWith(p.node)
		switch {
		case since.IsZero():
			timer.Reset(limits.Patience)
			continue
		case waited < patience && !p.node.scout.silent.Load():
			timer.Reset(patience - waited)
			continue
		}
		p.cluster.doubt(p.node, p.shards...)
		if p.cluster.moved(p.node, p.shards...) && p.giveUp(since, errMoved) {
			return
		}
		if probe == nil {
			probe, probed = p.node.present(p.cluster), since
		}
		timer.Reset(min(scoutPause, limits.Patience))
	}
}

// errMoved: a node does not answer, and another one leads.
var errMoved = errors.New("another node leads a shard that it was asked for")

// giveUp ends the call, if it still waits for the same thing.
func (p *patience) giveUp(since time.Time, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.Equal(since) {
		return false
	}
	p.cluster.metrics.givenUp.Inc()
	p.err = fmt.Errorf("%w: node %s has said nothing for %v: %w", series.ErrUnavailable, p.node.id, time.Since(since).Round(time.Millisecond), err)
	p.cancel()
	return true
}

// isAbsence says whether the answer to a probe is that the node does not answer; what
// else may be wrong shows in other calls.
func isAbsence(err error) bool {
	err = wire.FromStatus(err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, series.ErrUnavailable)
}
