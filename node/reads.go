package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
)

// readWait is one caller's wait for the confirmation of some shards.
type readWait struct {
	index     []uint64 // to be applied, by place in the caller's list
	errs      []error
	remaining atomic.Int32
	done      chan struct{}
}

func newReadWait(shards int) *readWait {
	w := &readWait{index: make([]uint64, shards), errs: make([]error, shards), done: make(chan struct{}, 1)}
	w.remaining.Store(int32(shards))
	return w
}

func (w *readWait) finish(at int, index uint64, err error) {
	w.index[at], w.errs[at] = index, err
	if w.remaining.Add(-1) == 0 {
		w.done <- struct{}{}
	}
}

// failReads answers reads while the log takes nothing: others may lead meanwhile.
func failReads(reads []commit.Read) {
	for _, s := range reads {
		s.For.(*readWait).finish(s.Place, 0, errNoLog)
	}
}

// errNoLog answers reads that cannot be confirmed because the log takes nothing.
var errNoLog = fmt.Errorf("%w: reads cannot be confirmed while the log takes nothing", series.ErrUnavailable)

// appliedIndex is how far a shard's log is applied, and who waits for more.
type appliedIndex struct {
	value   atomic.Uint64
	waiters atomic.Int32
	mu      struct {
		sync.Mutex
		waits []appliedWait
	}
}

type appliedWait struct {
	index uint64
	done  chan error // holds one
}

// advance is called by the shard's applier, and by the loop after a stall. It never
// goes back: only reset does.
func (a *appliedIndex) advance(index uint64) {
	for value := a.value.Load(); value < index; value = a.value.Load() {
		if a.value.CompareAndSwap(value, index) {
			break
		}
	}
	if a.waiters.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.waits = slices.DeleteFunc(a.mu.waits, func(w appliedWait) bool {
		if w.index > index {
			return false
		}
		w.done <- nil
		return true
	})
}

// reset is for another replica: who waits for this one's entries is told to ask again.
func (a *appliedIndex) reset(index uint64) {
	a.value.Store(index)
	a.failAll(commit.ErrReplaced)
}

func (a *appliedIndex) failAll(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.mu.waits {
		w.done <- err
	}
	a.mu.waits = nil
}

// await waits until the log is applied up to index.
func (a *appliedIndex) await(ctx context.Context, index uint64) error {
	if a.value.Load() >= index {
		return nil
	}
	w := appliedWait{index: index, done: make(chan error, 1)}
	a.waiters.Add(1)
	defer a.waiters.Add(-1)
	a.mu.Lock()
	// Looked at again: advance may have passed before it saw a waiter.
	reached := a.value.Load() >= index
	if !reached {
		a.mu.waits = append(a.mu.waits, w)
	}
	a.mu.Unlock()
	if reached {
		return nil
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.waits = slices.DeleteFunc(a.mu.waits, func(other appliedWait) bool { return other.done == w.done })
		return ctx.Err()
	}
}

// Confirm waits until reads of the shards here see every write that was answered
// before the call, anywhere, and returns an error for each shard of which that cannot
// be said: replica.NotLeaderError, series.ErrUnavailable, or that of the context.
//
// With a staleness above 0 it is enough that the replica was, at most so long ago, a
// full voter that had applied all that its leader had committed.
func (n *Node) Confirm(ctx context.Context, shards []uint16, stalenessMaxMs uint64) []error {
	errs := make([]error, len(shards))
	if n.loop.single.Load() {
		return errs // what is answered is applied
	}
	if stalenessMaxMs > 0 {
		if n.confirmStale(shards, stalenessMaxMs) {
			return errs
		}
	}
	wait := newReadWait(len(shards))
	starts := make([]commit.Read, len(shards))
	for i, shard := range shards {
		starts[i] = commit.Read{Shard: shard, Place: i, For: wait}
	}
	if err := n.loop.queue.read(starts); err != nil {
		return fill(errs, err)
	}
	select {
	case <-wait.done:
	case <-ctx.Done():
		return fill(errs, fmt.Errorf("%w: reads were not confirmed in time: %w", series.ErrUnavailable, ctx.Err()))
	}
	for i, shard := range shards {
		if errs[i] = wait.errs[i]; errs[i] == nil {
			errs[i] = n.loop.applied[shard].await(ctx, wait.index[i])
		}
	}
	return errs
}

// confirmStale reports whether all shards may be read here by a client that accepts old
// answers.
func (n *Node) confirmStale(shards []uint16, stalenessMaxMs uint64) (all bool) {
	all = true
	failed := n.loop.queue.do(func() {
		for _, shard := range shards {
			status, err := n.loop.machine.Host().Status(shard)
			age := uint64(status.Heard+1) * uint64(TickInterval.Milliseconds())
			if err != nil || status.Role != shardmap.Full || status.Leader == "" || status.Installing ||
				n.Applied(shard) < status.Commit || age > stalenessMaxMs {
				all = false
			}
		}
	})
	return all && failed == nil
}

func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}
