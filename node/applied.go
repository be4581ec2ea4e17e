package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/commit"
)

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
