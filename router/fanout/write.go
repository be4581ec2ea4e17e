package fanout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
)

const (
	attemptBytesMax = 4 << 20 // a node's parts of a frame go out in requests of about so much
	batchBytesMax   = transport.MessageBytesMax - wire.FrameBytesMax - wire.PartBytesMax
)

// Write implements ingest.Writer. The frame gets an id unless it has one; parts are
// written by the leaders of their shards, again and again until all are or the time
// is over. Errors: the kinds of api/series; series.ErrEra when the frame's ids may
// mean other series: then they have been forgotten, and the points have to be split
// again. After an error parts may have been written all the same.
func (c *Cluster) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	start := time.Now()
	outcome, err := c.write(ctx, frame, start)
	c.metrics.wrote(time.Since(start), err)
	return outcome, err
}

func (c *Cluster) write(ctx context.Context, frame *series.Frame, start time.Time) (series.Outcome, error) {
	if len(frame.Parts) == 0 {
		return series.Outcome{}, nil
	}
	v, err := c.viewNow(ctx)
	if err != nil {
		return series.Outcome{}, fmt.Errorf("%w: %w", series.ErrUnavailable, err)
	}
	deadline := start.Add(c.options.Limits.WriteTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	w := &call{cluster: c, frame: frame, id: frame.ID, deadline: deadline, wake: make(chan struct{}, 1)}
	bytes, err := w.prepare(v)
	if err != nil {
		return series.Outcome{}, err
	}
	release, err := c.admit(ctx, frame.Level, bytes, deadline)
	if err != nil {
		return series.Outcome{}, err
	}
	defer release()
	if w.id.IsZero() {
		session, id := c.sessions.take()
		defer c.sessions.give(session, id)
		w.id = id
	}
	defer w.end()
	return w.run(ctx)
}

// admit waits until a frame may be in flight. One of level all may wait long for a full voter that is
// away, so such frames never have more than half of the room, and do not wait long for that.
// Errors: series.ErrOverloaded.
func (c *Cluster) admit(ctx context.Context, level series.Level, bytes int64, deadline time.Time) (release func(), err error) {
	if level != series.LevelAll {
		return c.writes.acquire(ctx, bytes, deadline)
	}
	soon := time.Now().Add(c.options.Limits.ProbeAfter)
	if soon.After(deadline) {
		soon = deadline
	}
	leave, err := c.waiting.acquire(ctx, bytes, soon)
	if err != nil {
		return nil, fmt.Errorf("of level all: %w", err)
	}
	done, err := c.writes.acquire(ctx, bytes, deadline)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { done(); leave() }, nil
}

// part is what is known of one part of a frame.
type part struct {
	points      uint32
	definitions int
	era         uint32

	done      bool
	tries     int       // attempts after which it waited
	redirects int       // attempts after which it went to another node at once
	readOnly  int       // attempts that met a node whose disk takes no writes
	due       time.Time // of the next attempt
	current   *attempt  // nil: none that is still waited for
	err       error     // of the last attempt
}

// prepare looks into the parts and returns the frame's size.
func (w *call) prepare(v *view) (bytes int64, err error) {
	frame, resolver := w.frame, w.cluster.resolver
	w.parts, w.left = make([]part, len(frame.Parts)), len(frame.Parts)
	var r series.BatchReader
	for i := range frame.Parts {
		p, state := &frame.Parts[i], &w.parts[i]
		if int(p.Shard) >= len(v.rows) {
			return 0, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, p.Shard, len(v.rows))
		}
		if len(p.Batch) > batchBytesMax {
			return 0, fmt.Errorf("%w: shard %d has %d bytes, %d are the most", series.ErrBatch, p.Shard, len(p.Batch), batchBytesMax)
		}
		bytes += int64(len(p.Batch))
		for r.Reset(p.Batch); ; state.definitions++ {
			if _, ok := r.NextDefinition(); !ok {
				break
			}
		}
		if r.Err() != nil {
			return 0, r.Err()
		}
		state.points = uint32(min(r.Points(), math.MaxUint32))
		if state.era = p.Era; state.era == 0 && frame.Generation != 0 {
			var ok bool
			if state.era, ok = resolver.Era(p.Shard, frame.Generation); !ok {
				w.cluster.metrics.eras.Inc()
				return 0, fmt.Errorf("%w: shard %d", series.ErrEra, p.Shard)
			}
		}
	}
	return bytes, nil
}

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

// encode appends an attempt to a request, unless nobody waits for it any more. Only
// while the call has not ended is the frame's memory its own.
func (w *call) encode(a *attempt, dst []byte, scratch *wire.Frame) (_ []byte, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return dst, false
	}
	*scratch = wire.Frame{Sequence: a.sequence, ID: w.id, TimeoutMs: a.timeoutMs, Level: w.frame.Level, Parts: scratch.Parts[:0]}
	for _, i := range a.parts {
		p, part := &w.parts[i], &w.frame.Parts[i]
		scratch.Parts = append(scratch.Parts, wire.Part{Shard: part.Shard, Era: p.era, Points: p.points, Batch: part.Batch})
	}
	return scratch.AppendTo(dst), true
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
