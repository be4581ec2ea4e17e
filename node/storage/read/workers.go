package read

import (
	"context"
	"errors"
	"slices"
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
// left to do for worker 0. The error of one ends the context of the others. Errors are those of all workers that have begun,
// but for what came of that end.
func (c *workerPool) run(ctx context.Context, workers int, spawn func(func()), work func(ctx context.Context, worker int) error) error {
	if workers <= 1 {
		return work(ctx, 0)
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make([]error, workers)
	try := func(ctx context.Context, worker int) {
		if failures[worker] = work(ctx, worker); failures[worker] != nil {
			cancel()
		}
	}
	for i := 1; i < workers; i++ {
		spawn(func() {
			if c.begin() {
				defer c.begun.Done()
				ctx, share := processor.Fork(ctx)
				defer share.End()
				try(ctx, i)
			}
		})
	}
	try(ctx, 0)
	processor.Of(ctx).Idle() // helpers may wait for a slot
	c.mu.Lock()
	c.mu.over = true
	c.mu.Unlock()
	c.begun.Wait()
	ofEnd := func(err error) bool { return err == nil || outer.Err() == nil && errors.Is(err, context.Canceled) }
	if first := slices.DeleteFunc(slices.Clone(failures), ofEnd); len(first) > 0 {
		failures = first
	}
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
