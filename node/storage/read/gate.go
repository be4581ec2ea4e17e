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
	closing context.Context
	end     context.CancelFunc
	inside  sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
	}
}

// NewGate returns an open gate.
func NewGate() *Gate {
	g := &Gate{}
	g.closing, g.end = context.WithCancel(context.Background())
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
	stop := context.AfterFunc(g.closing, cancel)
	return within, func() {
		stop()
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
	g.mu.Unlock()
	g.end()
	g.inside.Wait()
	return first
}
