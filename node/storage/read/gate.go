package read

import (
	"context"
	"fmt"
	"sync"

	"github.com/tickmesh/tickmesh/api/series"
)

// ErrClosed answers questions that come after Close.
var ErrClosed = fmt.Errorf("%w: the storage is closed", series.ErrUnavailable)

// Gate counts who reads the engine's files, so that Close can end them and wait
// before it unmaps anything.
type Gate struct {
	inside sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		last   uint64                        // number of who came last
		ends   map[uint64]context.CancelFunc // of those inside
	}
}

// NewGate returns an open gate.
func NewGate() *Gate {
	g := &Gate{}
	g.mu.ends = map[uint64]context.CancelFunc{}
	return g
}

// Enter admits a reader, until it calls leave, with a context that ends with its
// own or with the gate. Errors: ErrClosed.
func (g *Gate) Enter(ctx context.Context) (within context.Context, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return nil, nil, ErrClosed
	}
	g.inside.Add(1)
	within, cancel := context.WithCancel(ctx)
	g.mu.last++
	number := g.mu.last
	g.mu.ends[number] = cancel
	return within, func() {
		g.mu.Lock()
		delete(g.mu.ends, number)
		g.mu.Unlock()
		cancel()
		g.inside.Done()
	}, nil
}

// Close ends those inside and waits for them. It returns false when somebody else
// has closed the gate before.
func (g *Gate) Close() bool {
	g.mu.Lock()
	first := !g.mu.closed
	g.mu.closed = true
	for _, end := range g.mu.ends {
		end()
	}
	g.mu.Unlock()
	g.inside.Wait()
	return first
}
