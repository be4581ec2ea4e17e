package fanout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// run makes attempts until all parts are written. After an error that no attempt
// mends, it waits for those under way: the fewer writes are in doubt the better.
func (w *call) run(ctx context.Context) (series.Outcome, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		v, now := w.cluster.current.Load(), time.Now()
		for _, a := range w.delivered() {
			w.take(v, a, now)
		}
		if w.left == 0 {
			return w.result()
		}
		w.expire(v, now)
		if w.fatal == nil {
			w.launch(v, now)
		}
		next, waiting := w.next()
		if w.fatal != nil && !waiting {
			return series.Outcome{}, w.fatal
		}
		if !now.Before(w.deadline) {
			return series.Outcome{}, w.late(context.DeadlineExceeded) // the context may say so a moment later
		}
		timer.Reset(next.Sub(now))
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return series.Outcome{}, w.late(ctx.Err())
		}
	}
}

// expire turns to other nodes where attempts have taken long.
func (w *call) expire(v *view, now time.Time) {
	defer w.doubtAgain(now)
	for i := range w.parts {
		p := &w.parts[i]
		if p.done || p.current == nil || now.Before(p.current.expires) && !w.doubted(i, now) {
			continue
		}
		n := p.current.node
		if !p.current.givenUp {
			p.current.givenUp = true
			if !now.Before(p.current.expires) && w.frame.Level != series.LevelAll {
				n.attempts.Expired(p.current.allowed)
			}
			w.flying.Add(-1) // and again should it be delivered: then the call is woken too often
		}
		p.current = nil
		w.cluster.metrics.expired.Inc()
		w.failed(v, i, n, fmt.Errorf("%w: node %s has not answered in time", series.ErrUnavailable, n.id), now)
	}
}

// doubted looks after a part whose node takes longer than it should, and reports whether
// that node is silent and another one leads.
func (w *call) doubted(i int, now time.Time) bool {
	a, shard := w.parts[i].current, w.frame.Parts[i].Shard
	if now.Before(a.doubts) {
		return false
	}
	w.cluster.doubt(a.node, shard)
	return w.cluster.moved(a.node, shard)
}

// doubtAgain sets the time of the next look at nodes that were doubted now.
func (w *call) doubtAgain(now time.Time) {
	for i := range w.parts {
		if a := w.parts[i].current; a != nil && !now.Before(a.doubts) {
			a.doubts = now.Add(w.cluster.probeAfter(a.node))
		}
	}
}

// next returns the time at which there is something to do, and whether attempts are
// under way.
func (w *call) next() (next time.Time, waiting bool) {
	next = w.deadline
	for i := range w.parts {
		p := &w.parts[i]
		switch {
		case p.done:
		case p.current != nil:
			waiting = true
			if p.current.expires.Before(next) {
				next = p.current.expires
			}
			if p.current.doubts.Before(next) {
				next = p.current.doubts
			}
		case w.fatal == nil && p.due.Before(next):
			next = p.due
		}
	}
	return next, waiting
}

// late returns the error when the time is over, or the caller has left: the cause.
func (w *call) late(cause error) error {
	if w.fatal != nil {
		return w.fatal
	}
	for i := range w.parts {
		p := &w.parts[i]
		if p.done {
			continue
		}
		err, kind := p.err, series.ErrUnavailable
		for _, of := range [...]error{series.ErrOverloaded, series.ErrReadOnly} {
			if errors.Is(err, of) {
				kind = of
			}
		}
		if err == nil {
			err = errNoAnswer
		}
		err = fmt.Errorf("%w: %w", err, cause)
		return fmt.Errorf("%w: shard %d was not written in time: %w", kind, w.frame.Parts[i].Shard, err)
	}
	return errClosed // not reached: some part is not written
}

var errNoAnswer = errors.New("no answer")

// launch makes attempts for all parts that are due.
func (w *call) launch(v *view, now time.Time) {
	var groups []*attempt
	for i := range w.parts {
		p := &w.parts[i]
		if p.done || p.current != nil || p.due.After(now) {
			continue
		}
		shard := w.frame.Parts[i].Shard
		n := w.cluster.serverOf(v, shard)
		if n == nil {
			w.again(i, fmt.Errorf("%w: no node is known for shard %d", series.ErrUnavailable, shard), now)
			continue
		}
		groups = w.join(groups, n, i)
	}
	for _, a := range groups {
		w.begin(a, now)
		if err := a.node.links[a.sequence%uint64(len(a.node.links))].submit(a); err != nil {
			w.flying.Add(-1)
			for _, i := range a.parts {
				w.parts[i].current = nil
				w.failed(v, i, a.node, err, now)
			}
		}
	}
}

// join adds a part to the attempt for a node.
func (w *call) join(groups []*attempt, n *node, i int) []*attempt {
	size := int64(len(w.frame.Parts[i].Batch) + wire.PartBytesMax)
	var a *attempt
	for _, g := range groups {
		if g.node == n && g.bytes+size <= attemptBytesMax {
			a = g
		}
	}
	if a == nil {
		a = &attempt{call: w, node: n, bytes: wire.FrameBytesMax}
		groups = append(groups, a)
	}
	a.parts, a.shards = append(a.parts, i), append(a.shards, w.frame.Parts[i].Shard)
	a.bytes += size
	w.parts[i].current = a
	return groups
}

// begin counts an attempt as under way.
func (w *call) begin(a *attempt, now time.Time) {
	w.cluster.metrics.attempts.Inc()
	a.sequence = w.cluster.sequence.Add(1)
	a.began, a.allowed = now, a.node.attempts.Allowed()
	a.expires = now.Add(a.allowed)
	if w.frame.Level == series.LevelAll { // the node waits for others
		a.expires = w.deadline
	}
	a.doubts = now.Add(w.cluster.probeAfter(a.node))
	a.timeoutMs = uint32(min(max(w.deadline.Sub(now).Milliseconds(), 1), math.MaxUint32))
	w.flying.Add(1)
}

// take notes what became of an attempt. A part that an earlier attempt wrote is
// written, though a later one is still waited for; only the last one's error counts.
func (w *call) take(v *view, a *attempt, now time.Time) {
	wrote := false
	for k, i := range a.parts {
		p := &w.parts[i]
		if p.done {
			continue
		}
		o, err := wire.PartOutcome{Copies: a.copies}, a.err
		if len(a.outcomes) > 0 {
			o, err = a.outcomes[k], a.outcomes[k].Err
		}
		if err == nil {
			w.wrote(i, a, &o)
			wrote = true
			continue
		}
		if p.current == a {
			p.current = nil
			w.failed(v, i, a.node, err, now)
		}
	}
	if wrote && w.frame.Level != series.LevelAll { // that one waits for other nodes
		a.node.attempts.Took(now.Sub(a.began))
	}
}

// failed decides whether a part is tried again, when and where.
func (w *call) failed(v *view, i int, n *node, err error, now time.Time) {
	p, shard := &w.parts[i], w.frame.Parts[i].Shard
	var notLeader *wire.NotLeaderError
	switch {
	case errors.Is(err, series.ErrEra):
		w.cluster.resolver.Forget(shard, p.era)
		w.cluster.metrics.eras.Inc()
		w.giveUp(i, err)
	case errors.As(err, &notLeader):
		pointed := w.cluster.pointed(v, shard, n, notLeader.Leader)
		if !pointed && notLeader.Leader != n.id {
			w.cluster.passOver(v, shard, n)
		}
		if (pointed || !v.serves(shard, n)) && p.redirects < redirectsMax {
			w.cluster.metrics.redirects.Inc()
			p.err, p.due = err, now
			p.redirects++
			return
		}
		w.again(i, err, now)
	case errors.Is(err, series.ErrOverloaded):
		w.again(i, err, now)
	case errors.Is(err, series.ErrReadOnly) && p.readOnly < readOnlyTriesMax && v.hasOther(shard, n):
		// It hands the shard over, or is about to lose it, or has lost it already and does not hear of it.
		p.readOnly++
		w.cluster.passOver(v, shard, n)
		w.again(i, err, now)
	case passes(err):
		if errors.Is(err, series.ErrUnavailable) {
			w.cluster.doubt(n, shard)
		}
		w.cluster.passOver(v, shard, n)
		w.again(i, err, now)
	default:
		w.giveUp(i, err)
	}
}

// redirectsMax bounds how often a part goes to another node without waiting: to the one that a node has
// named, or on from a node that has left the group.
const redirectsMax = 3

// readOnlyTriesMax bounds the attempts that meet a leader whose disk takes no writes, where the shard has another copy. With the default
// pauses these are some 4 s: longer than it takes to hand over, and than an election where the leader's log has no room.
const readOnlyTriesMax = 40

// passes reports whether another node, or the same one later, may do what failed.
func passes(err error) bool {
	for _, kind := range [...]error{
		series.ErrUnavailable, series.ErrOverloaded, context.DeadlineExceeded, context.Canceled,
		wire.ErrWrongNode, wire.ErrStaleMap,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func (w *call) again(i int, err error, now time.Time) {
	p := &w.parts[i]
	w.cluster.metrics.retries.Inc()
	p.tries++
	p.err, p.due = err, now.Add(w.cluster.options.Limits.backoff().Delay(p.tries))
}

// giveUp keeps the first error that no attempt will mend.
func (w *call) giveUp(i int, err error) {
	w.parts[i].err = err
	if w.fatal == nil {
		w.fatal = fmt.Errorf("shard %d: %w", w.frame.Parts[i].Shard, err)
	}
}
