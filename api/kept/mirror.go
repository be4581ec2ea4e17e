package kept

import (
	"context"
	"sync"
	"time"
)

// Mirror has values as a watch told of them last. It is safe for concurrent use.
type Mirror[V comparable] struct {
	mu struct {
		sync.Mutex
		all     map[string]V
		changed chan struct{} // closed by the next See; nil: nobody waits
	}
}

// See replaces the values with those of the watch, which are not changed afterwards.
func (m *Mirror[V]) See(all map[string]V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.all = all
	if m.mu.changed != nil {
		close(m.mu.changed)
		m.mu.changed = nil
	}
}

// All returns the values by name. They are shared and not to be changed.
func (m *Mirror[V]) All() map[string]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.all
}

// seenMax bounds how long Await waits.
const seenMax = 2 * time.Second

// Await waits until a value that was stored is seen, so that whoever stored it finds it
// afterwards; the zero value stands for none. A watch that is slow, or ctx, ends the wait too.
func (m *Mirror[V]) Await(ctx context.Context, name string, value V) {
	ctx, cancel := context.WithTimeout(ctx, seenMax)
	defer cancel()
	for {
		m.mu.Lock()
		if m.mu.all[name] == value {
			m.mu.Unlock()
			return
		}
		if m.mu.changed == nil {
			m.mu.changed = make(chan struct{})
		}
		changed := m.mu.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
