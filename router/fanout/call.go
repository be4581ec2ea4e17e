package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// call is one Write under way. All but deliver runs in the goroutine of its caller.
type call struct {
	cluster  *Cluster
	frame    *series.Frame
	id       series.BatchID
	deadline time.Time
	parts    []part
	left     int   // parts that are not written
	fatal    error // no further attempts are made
	outcome  series.Outcome
	missing  int          // full voters of a part that do not have it, at most, though the frame asks for all
	flying   atomic.Int32 // attempts that are waited for, or fewer: see deliver

	wake  chan struct{} // has one element when there is something to do
	mu    sync.Mutex
	done  []*attempt // guarded by mu: delivered
	ended bool       // guarded by mu: nobody waits for attempts any more, the frame's memory may change
}

// deliver hands the call an attempt whose outcome is known. The call
// is woken when it has nothing else to wait for, or something to try again.
func (w *call) deliver(a *attempt) {
	w.mu.Lock()
	w.done = append(w.done, a)
	w.mu.Unlock()
	if w.flying.Add(-1) > 0 && a.err == nil && len(a.outcomes) == 0 {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // it was said already
	}
}

func (w *call) delivered() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.done
	w.done = nil
	return done
}

func (w *call) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
}

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

// result returns the outcome when all parts are written.
func (w *call) result() (series.Outcome, error) {
	if w.missing > 0 {
		return series.Outcome{}, &series.CopiesError{Copies: w.outcome.Copies, Missing: w.missing}
	}
	return w.outcome, nil
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

// wrote marks a part as done.
func (w *call) wrote(i int, a *attempt, o *wire.PartOutcome) {
	p, shard := &w.parts[i], w.frame.Parts[i].Shard
	p.done, p.current = true, nil
	w.left--
	w.cluster.leads(shard, a.node)
	if w.outcome.Copies == 0 || o.Copies < w.outcome.Copies {
		w.outcome.Copies = o.Copies
	}
	if w.frame.Level == series.LevelAll && o.Level != series.LevelAll {
		w.missing = max(w.missing, o.Missing, 1) // a node that does not know the level says nothing of it
	}
	for _, r := range o.Refused {
		if r.Part = i; r.Definition < p.definitions {
			w.outcome.Refused = append(w.outcome.Refused, r)
		}
	}
	if len(o.Defined) > 0 {
		w.learn(i, o.Defined)
	}
}

// learn passes the ids of a part's definitions to the resolver.
func (w *call) learn(i int, defined []series.Defined) {
	part := &w.frame.Parts[i]
	keys := make([]series.Key, 0, w.parts[i].definitions)
	var r series.BatchReader
	for r.Reset(part.Batch); ; {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		keys = append(keys, key)
	}
	for _, d := range defined {
		if d.Part = i; d.Definition >= len(keys) {
			continue
		}
		w.cluster.resolver.Learn(keys[d.Definition], part.Shard, d.ID, d.Era)
		w.outcome.Defined = append(w.outcome.Defined, d)
	}
}

// backoff is how long shards that failed wait for their next attempt.
func (l *Limits) backoff() backoff.Exponential {
	return backoff.Exponential{Min: l.BackoffMin, Max: l.BackoffMax}
}
