package storage

import (
	"context"
	"fmt"
	"sync"

	"github.com/tickmesh/tickmesh/api/series"
)

// ErrClosed answers questions that come after Close.
var ErrClosed = fmt.Errorf("%w: the storage is closed", series.ErrUnavailable)

// gate counts who reads the engine's files, so that Close can end them and wait
// before it unmaps anything.
type gate struct {
	closing context.Context
	end     context.CancelFunc
	inside  sync.WaitGroup
	idle    sync.Pool // of *readerMemory, of readers that have left

	mu struct {
		sync.Mutex
		closed bool
	}
}

func (g *gate) open() { g.closing, g.end = context.WithCancel(context.Background()) }

// enter lets a reader in, until it calls leave, with a context that ends with its
// own or with the gate. Errors: ErrClosed.
func (g *gate) enter(ctx context.Context) (within context.Context, leave func(), err error) {
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

// close ends those inside and waits for them. It gives false when somebody else
// has closed the gate before.
func (g *gate) close() bool {
	g.mu.Lock()
	first := !g.mu.closed
	g.mu.closed = true
	g.mu.Unlock()
	g.end()
	g.inside.Wait()
	return first
}
