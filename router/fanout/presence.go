package fanout

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/deadline"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const (
	// presenceFactorMax is how many times as long as Limits.ProbeTimeout a node that is
	// there, on a busy machine, may take to say so.
	presenceFactorMax = 5
	// presenceKept is how long it is believed that a node is slow, after its last answer.
	presenceKept = 5 * time.Second
)

// presence is how long a node may take until it counts as absent. Only an answer teaches
// that a node is slow, be it late: a node that never answers is not waited for longer.
type presence struct {
	limit    *deadline.Adaptive
	answered atomic.Int64 // Unix nanoseconds of the last answer
}

// took records an answer.
func (p *presence) took(d time.Duration, now time.Time) {
	p.limit.Took(d)
	p.answered.Store(now.UnixNano())
}

// allowed returns how long a probe may take.
func (p *presence) allowed(now time.Time) time.Duration {
	if p.answered.Load() < now.Add(-presenceKept).UnixNano() {
		p.limit.Reset()
	}
	return p.limit.Allowed()
}

// probeAfter returns how long a node may say nothing before it is asked whether it is there:
// as many times Limits.ProbeAfter as its probes are allowed times Limits.ProbeTimeout.
func (p *presence) probeAfter(l *Limits, now time.Time) time.Duration {
	allowed := p.allowed(now)
	if allowed <= l.ProbeTimeout {
		return l.ProbeAfter
	}
	return min(time.Duration(float64(l.ProbeAfter)*float64(allowed)/float64(l.ProbeTimeout)), l.AttemptTimeout)
}

// probe asks the node whether it is there. Calls at the same time ask once. Whoever waits
// for the answer bounds that by presence.allowed; the question goes on for longer, so that
// a late answer is heard.
func (n *node) probe(c *Cluster) <-chan singleflight.Result {
	return n.probes.DoChan("", func() (any, error) {
		c.metrics.probes.Inc()
		start := time.Now()
		ctx, cancel := context.WithTimeout(n.life, presenceFactorMax*c.options.Limits.ProbeTimeout)
		defer cancel()
		_, err := n.client.Handshake(ctx, &nodev1.HandshakeRequest{})
		if now := time.Now(); !isAbsence(err) {
			n.presence.took(now.Sub(start), now)
		}
		return nil, err
	})
}

// present asks the node whether it is there; its error is isAbsence's when it has not
// answered in the time that it is allowed.
func (n *node) present(c *Cluster) <-chan error {
	answered := make(chan error, 1)
	limit := n.presence.allowed(time.Now())
	go func() { // ends with the limit at the latest
		answered <- n.ask(n.life, c, limit)
	}()
	return answered
}

// hello reports whether the node answers within a time.
func (n *node) hello(ctx context.Context, c *Cluster, limit time.Duration) bool {
	return !isAbsence(n.ask(ctx, c, limit))
}

// ask waits for the answer to a probe, and for no longer than a limit.
func (n *node) ask(ctx context.Context, c *Cluster, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case answer := <-n.probe(c):
		return answer.Err
	case <-timer.C:
		return status.FromContextError(context.DeadlineExceeded).Err()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// isAbsence reports whether err, the answer to a probe, means that the node did not
// answer. Other faults show in other calls.
func isAbsence(err error) bool {
	err = wire.FromStatus(err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, series.ErrUnavailable)
}
