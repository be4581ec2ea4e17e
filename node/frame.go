package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/limits"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

const writeBytesMax = 128 << 20

// PartOutcome is what became of one part of a frame. With a nil error all points but
// those of the refused definitions are in the logs of Copies replicas and readable.
type PartOutcome struct {
	Err     error
	Copies  int
	Refused []series.Refusal
	// Level is the one that was reached. With less than the frame's own the part is
	// written all the same, and Missing full voters were not known to have it.
	Level   series.Level
	Missing int
}

// Write takes a frame through the log and applies it. When it returns without an
// error, all of the frame but the refused definitions is in the log and readable.
// Errors: the kinds of api/series.
func (n *Node) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	parts, err := n.WriteParts(ctx, frame)
	if err != nil {
		return series.Outcome{}, err
	}
	var outcome series.Outcome
	missing := 0
	for i := range parts {
		if parts[i].Err != nil {
			return series.Outcome{}, parts[i].Err
		}
		if i == 0 || parts[i].Copies < outcome.Copies {
			outcome.Copies = parts[i].Copies
		}
		outcome.Refused = append(outcome.Refused, parts[i].Refused...)
		missing = max(missing, parts[i].Missing)
	}
	if missing > 0 {
		return series.Outcome{}, &series.CopiesError{Copies: outcome.Copies, Missing: missing}
	}
	return outcome, nil
}

// WriteParts is Write for callers that go on with some parts elsewhere: each part has
// its own outcome. An error stands for all parts: none was proposed, or that is unknown.
func (n *Node) WriteParts(ctx context.Context, frame *series.Frame) ([]PartOutcome, error) {
	w, err := n.prepare(ctx, frame)
	if err == nil {
		err = n.submit(ctx, w.write)
	}
	w.end()
	if err != nil {
		return nil, err
	}
	w.hold(ctx, frame)
	return w.outcomes, nil
}

// StartWrite is WriteParts for callers that have many frames under way, of which they
// bound the number: it does not wait. done is called once, perhaps before StartWrite
// returns, and must not block: while it runs nothing else is applied. The frame's memory
// must not change until then.
func (n *Node) StartWrite(ctx context.Context, frame *series.Frame, done func([]PartOutcome, error)) {
	bytes := int64(0)
	for i := range frame.Parts {
		bytes += int64(len(frame.Parts[i].Batch))
	}
	// Room is rarely missing, and a goroutine that waits costs as much as the rest.
	if n.engine.FlushLags() || !n.loop.queue.hasRoom(bytes) {
		go func() { done(n.WriteParts(ctx, frame)) }()
		return
	}
	w, err := n.prepare(ctx, frame)
	if err == nil && len(w.write.Proposals) > 0 {
		w.write.Done = func() {
			w.end()
			if frame.Level == series.LevelMajority {
				done(w.outcomes, nil)
				return
			}
			go func() {
				w.hold(ctx, frame)
				done(w.outcomes, nil)
			}()
		}
		if err = n.enqueue(ctx, w.write); err == nil {
			return
		}
	}
	w.end()
	if err != nil {
		w.outcomes = nil
	}
	done(w.outcomes, err)
}

// frameWrite is a frame on its way through the log.
type frameWrite struct {
	node      *Node
	write     *commit.Write
	outcomes  []PartOutcome // complete when it has ended
	admission limits.Admission
}

// prepare checks a frame against the limits. The result has to be ended in any case.
func (n *Node) prepare(ctx context.Context, frame *series.Frame) (*frameWrite, error) {
	w := &frameWrite{node: n}
	if err := n.engine.AwaitFlush(ctx); err != nil {
		return w, err
	}
	a := &w.admission
	outcomes := make([]PartOutcome, len(frame.Parts))
	w.write = commit.NewWrite(frame.ID, len(frame.Parts))
	for i := range frame.Parts {
		part := &frame.Parts[i]
		if int(part.Shard) >= n.engine.Shards() {
			return w, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, part.Shard, n.engine.Shards())
		}
		if series.HoursOf(part.Batch) {
			if err := n.admitHours(ctx, part); err != nil {
				return w, err
			}
		}
		refused := len(a.Refused)
		batch, id, err := n.limiter.Admit(frame, i, a)
		if errors.Is(err, series.ErrSeriesRate) {
			outcomes[i].Err = err
			continue
		}
		if err != nil {
			return w, err
		}
		outcomes[i].Refused = a.Refused[refused:]
		w.write.Add(entry.Samples, part.Shard, batch)
		added := &w.write.Proposals[len(w.write.Proposals)-1]
		added.ID, added.Era = id, part.Era
	}
	w.outcomes = outcomes
	return w, nil
}

// end fills in the outcomes and releases what was admitted.
func (w *frameWrite) end() {
	w.node.limiter.Release(&w.admission)
	for i, next := 0, 0; i < len(w.outcomes); i++ {
		if o := &w.outcomes[i]; o.Err == nil {
			o.Err, o.Copies = w.write.Proposals[next].Err, w.write.Proposals[next].Copies
			next++
		}
	}
}

// submit takes a write through the log and waits until it is applied, or its outcome
// is an error. The write's memory must not change until then; that is why a context
// that ends does not end the wait once the write is queued.
func (n *Node) submit(ctx context.Context, w *commit.Write) error {
	if len(w.Proposals) == 0 {
		return nil
	}
	done := make(chan struct{}, 1)
	w.Done = func() { done <- struct{}{} }
	if err := n.enqueue(ctx, w); err != nil {
		return err
	}
	<-done
	return nil
}

// enqueue hands the loop a write that has proposals. After an error it does not have it.
func (n *Node) enqueue(ctx context.Context, w *commit.Write) error {
	if w.Bytes > writeBytesMax {
		return fmt.Errorf("%w: a write of %d bytes, %d are the most", series.ErrBatch, w.Bytes, writeBytesMax)
	}
	if err := n.loop.refusals.ofWrites(); err != nil {
		return err
	}
	w.Begin()
	return n.loop.queue.enqueue(ctx, w)
}

// propose submits a write that is one thing: an error of one proposal is its error.
func (n *Node) propose(ctx context.Context, w *commit.Write) error {
	if err := n.submit(ctx, w); err != nil {
		return err
	}
	return w.FirstError()
}
