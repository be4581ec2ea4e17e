package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
)

// awaitHolders waits until every full voter of a shard has all of its log that is
// applied here, or until the context ends, and returns the replicas that have it and the
// full voters that are not known to. Errors: replica.NotLeaderError, and errClosed and
// others of kind series.ErrUnavailable when that is unknown.
func (n *Node) awaitHolders(ctx context.Context, shard uint16) (copies, missing int, err error) {
	if n.loop.groups[shard].single.Load() {
		return 1, 0, nil
	}
	done := make(chan struct{}) // closed once
	w := &commit.Held{Index: n.Applied(shard), Done: func() { close(done) }}
	l := n.loop
	if failed := l.queue.do(func() { l.machine.Hold(shard, w) }); failed != nil {
		return 0, 0, failed
	}
	select {
	case <-done:
		return w.Copies, w.Missing, w.Err
	case <-ctx.Done():
	}
	// The loop may still end the wait, so only the loop may take it back.
	if failed := l.queue.do(func() { l.machine.GiveUp(shard, w) }); failed != nil {
		<-done // the loop has ended, or ends, and failed all waits
	}
	return w.Copies, w.Missing, w.Err
}

// hold waits for the full voters of a frame's shards, as its level asks. Its outcomes
// say how that ended. A part whose leader was lost meanwhile is an error: it is done, and
// its repetition with the same id waits at the next leader.
func (w *frameWrite) hold(ctx context.Context, frame *series.Frame) {
	if frame.Level != series.LevelAll {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelWait(ctx, frame))
	defer cancel()
	for i := range w.outcomes {
		o, shard := &w.outcomes[i], frame.Parts[i].Shard
		if o.Err != nil {
			continue
		}
		copies, missing, err := w.node.awaitHolders(ctx, shard)
		if err != nil {
			o.Err = fmt.Errorf("written, but not known to be in every full voter's log: %w", err)
			continue
		}
		o.Copies, o.Missing = max(o.Copies, copies), missing
		if missing == 0 {
			o.Level = series.LevelAll
		}
	}
}

// levelWaitMax bounds the wait of a caller that names no end.
const levelWaitMax = 10 * time.Second

// levelWait returns how long full voters are waited for: an eighth of the caller's time is
// left for the answer that tells how many there are.
func levelWait(ctx context.Context, frame *series.Frame) time.Duration {
	wait := levelWaitMax
	if at, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(at))
	}
	if frame.Timeout > 0 {
		wait = min(wait, frame.Timeout)
	}
	return wait - wait/8
}
