package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// patience watches one call to a node. A process that was stopped, or a machine that
// has gone, leaves connections on which nothing comes, and gRPC takes more than ten
// seconds to find out. A node that only takes its time answers when it is asked whether
// it is there, and is waited for.
type patience struct {
	cluster *Cluster
	node    *node
	cancel  context.CancelFunc // ends the call

	mu    sync.Mutex
	since time.Time // guarded by mu: the call waits for the node since then; zero: it does not
	err   error     // guarded by mu: why the node was given up
}

// watch gives the context of a call to a node, and its patience. The caller has to call
// done at the end; it waits for the watch to end.
func (c *Cluster) watch(ctx context.Context, n *node) (of context.Context, p *patience, done func()) {
	of, cancel := context.WithCancel(ctx)
	p = &patience{cluster: c, node: n, cancel: cancel}
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
	limit := p.cluster.options.Limits.AttemptTimeout
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next, since := limit, p.waiting()
		if waited := time.Since(since); !since.IsZero() && waited < limit {
			next = limit - waited
		} else if !since.IsZero() {
			if err := p.node.probe(ctx, p.cluster); err != nil && ctx.Err() == nil && p.giveUp(since, err) {
				return
			}
		}
		timer.Reset(next)
	}
}

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

// probe asks the node whether it is there. Calls at the same time ask once. Its error
// is that it does not answer; what else may be wrong shows in other calls.
func (n *node) probe(ctx context.Context, c *Cluster) error {
	asked := n.probes.DoChan("", func() (any, error) {
		c.metrics.probes.Inc()
		ctx, cancel := context.WithTimeout(n.life, c.options.Limits.ProbeTimeout)
		defer cancel()
		_, err := n.client.Handshake(ctx, &nodev1.HandshakeRequest{})
		return nil, err
	})
	select {
	case answer := <-asked:
		err := wire.FromStatus(answer.Err)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, series.ErrUnavailable) {
			return err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
