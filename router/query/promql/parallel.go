package promql

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/processor"
)

// inParallel does n things, some at a time, and returns an error of one. The first error
// ends the others. A single thing, as of most queries, is done by the caller: a goroutine of its own would
// grow its stack anew each time.
func inParallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	workers = min(max(1, workers), n)
	if workers <= 1 {
		return inTurn(ctx, n, do)
	}
	failures := make([]error, workers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			ctx, work := processor.Fork(ctx)
			defer work.End()
			for failures[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				failures[worker] = do(ctx, i)
			}
			cancel()
		})
	}
	processor.Of(ctx).Idle()
	group.Wait()
	processor.Of(ctx).Pace()
	return firstFailure(failures)
}

// inTurn does n things one after the other, up to the first error.
func inTurn(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	for i := range n {
		if err := do(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// firstFailure returns the error that is not just the end of the others.
func firstFailure(failures []error) error {
	var first error
	for _, err := range failures {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}
