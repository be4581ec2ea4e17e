package client

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/tickmesh/tickmesh/api/series"
)

// counterWindow is how far apart the counters of batches without an answer may be. A
// server remembers 128 of a session.
const counterWindow = 128

// window assigns ids to batches. The session is drawn once.
type window struct {
	session uint64
	mu      struct {
		sync.Mutex
		last    uint64              // counter that was given last
		open    map[uint64]struct{} // counters without an answer
		changed chan struct{}       // closed and made anew when one is answered
	}
}

func newWindow() *window {
	w := &window{}
	for w.session == 0 {
		w.session = rand.Uint64()
	}
	w.mu.open, w.mu.changed = map[uint64]struct{}{}, make(chan struct{})
	return w
}

// take returns the next id, once it is near enough to the oldest one without an
// answer. Its only error is the context's.
func (w *window) take(ctx context.Context) (series.BatchID, error) {
	for {
		w.mu.Lock()
		next := w.mu.last + 1
		oldest := next
		for counter := range w.mu.open {
			oldest = min(oldest, counter)
		}
		if next-oldest < counterWindow {
			w.mu.last = next
			w.mu.open[next] = struct{}{}
			w.mu.Unlock()
			return series.BatchID{Session: w.session, Counter: next}, nil
		}
		changed := w.mu.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return series.BatchID{}, context.Cause(ctx)
		}
	}
}

// give notes that a batch has its answer, or is given up.
func (w *window) give(id series.BatchID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.open, id.Counter)
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}
