package read

import (
	"context"
	"errors"
	"sync"

	"github.com/tickmesh/tickmesh/api/processor"
)

// workerPool works on one read: the goroutine that was asked, and helpers. Once the first has
// found nothing more to do, the read does not wait for helpers that have not begun: while
// all cores are busy that may take long, and nothing is left for them.
type workerPool struct {
	mu struct {
		sync.Mutex
		over bool
	}
	begun sync.WaitGroup
}

// run calls work for worker 0, and for further workers by spawn, until there is nothing
// left to do for worker 0. Errors are those of all workers that have begun.
func (c *workerPool) run(ctx context.Context, workers int, spawn func(func()), work func(ctx context.Context, worker int) error) error {
	failures := make([]error, max(workers, 1))
	for i := 1; i < workers; i++ {
		spawn(func() {
			if c.begin() {
				defer c.begun.Done()
				ctx, share := processor.Fork(ctx)
				defer share.End()
				failures[i] = work(ctx, i)
			}
		})
	}
	failures[0] = work(ctx, 0)
	if workers > 1 {
		processor.Of(ctx).Idle() // helpers may wait for a slot
	}
	c.mu.Lock()
	c.mu.over = true
	c.mu.Unlock()
	c.begun.Wait()
	return errors.Join(failures...)
}

// begin reports whether there may be something to do for a helper.
func (c *workerPool) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.over {
		return false
	}
	c.begun.Add(1)
	return true
}
