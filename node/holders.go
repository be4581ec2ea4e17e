package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// holding are the writes of series.LevelAll that are done and wait for full voters. Its
// size is bounded by the frames in work.
type holding map[uint16][]*holderWait

// holderWait waits until all full voters of a shard have an entry in their logs.
type holderWait struct {
	index   uint64
	copies  int
	missing int // full voters
	err     error
	done    chan struct{} // closed when missing is 0, or err is set
}

// look counts who has the entry, and says whether there is nothing to wait for.
func (w *holderWait) look(status *replica.GroupStatus, err error) (ended bool) {
	if err == nil && !status.Leads {
		err = &replica.NotLeaderError{Shard: status.Shard, Leader: status.Leader}
	}
	if w.err = err; err != nil {
		return true
	}
	w.copies, w.missing = 0, 0
	for _, p := range status.Progress {
		switch has := p.Match >= w.index; {
		case has && p.Member.Role.Votes():
			w.copies++
		case !has && p.Member.Role == shardmap.Full:
			w.missing++
		}
	}
	return w.missing == 0
}

// lookAtHolders ends the waits of which all full voters have the entry.
func (l *loop) lookAtHolders() {
	for shard, waits := range l.waiting.holding {
		status, err := l.host.Status(shard)
		left := waits[:0]
		for _, w := range waits {
			if w.look(&status, err) {
				close(w.done)
			} else {
				left = append(left, w)
			}
		}
		clear(waits[len(left):])
		if l.waiting.holding[shard] = left; len(left) == 0 {
			delete(l.waiting.holding, shard)
		}
	}
}

// failAll ends all waits.
func (h holding) failAll(err error) {
	for shard, waits := range h {
		for _, w := range waits {
			w.err = err
			close(w.done)
		}
		delete(h, shard)
	}
}

// awaitHolders waits until every full voter of a shard has all of its log that is
// applied here, or until the context ends, and gives the replicas that have it and the
// full voters that are not known to. Errors: replica.NotLeaderError, and errClosed and
// others of kind series.ErrUnavailable when nobody knows.
func (n *Node) awaitHolders(ctx context.Context, shard uint16) (copies, missing int, err error) {
	if n.loop.groups[shard].lone.Load() {
		return 1, 0, nil
	}
	w := &holderWait{index: n.Applied(shard), done: make(chan struct{})}
	l := n.loop
	failed := l.queue.do(func() {
		status, err := l.host.Status(shard)
		if w.look(&status, err) {
			close(w.done)
			return
		}
		if l.waiting.holding == nil {
			l.waiting.holding = holding{}
		}
		l.waiting.holding[shard] = append(l.waiting.holding[shard], w)
	})
	if failed != nil {
		return 0, 0, failed
	}
	select {
	case <-w.done:
		return w.copies, w.missing, w.err
	case <-ctx.Done():
	}
	// The loop may still end the wait, so only the loop may take it back.
	failed = l.queue.do(func() {
		waits := l.waiting.holding[shard]
		for i := range waits {
			if waits[i] == w {
				l.waiting.holding[shard] = append(waits[:i], waits[i+1:]...)
				break
			}
		}
	})
	if failed != nil {
		<-w.done // the loop has ended, or ends, and failed all waits
	}
	return w.copies, w.missing, w.err
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

// levelWait gives how long full voters are waited for: an eighth of the caller's time is
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
