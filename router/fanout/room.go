package fanout

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tickmesh/tickmesh/api/series"
)

// room bounds frames in flight, and their bytes.
type room struct {
	framesMax, bytesMax int64
	frames, bytes       *semaphore.Weighted
}

func newRoom(framesMax int, bytesMax int64) room {
	r := room{framesMax: max(1, int64(framesMax)), bytesMax: max(1, bytesMax)}
	r.frames, r.bytes = semaphore.NewWeighted(r.framesMax), semaphore.NewWeighted(r.bytesMax)
	return r
}

// enter waits for room for a frame; one that is larger than all of it passes alone.
// Errors: series.ErrOverloaded.
func (r *room) enter(ctx context.Context, bytes int64, deadline time.Time) (leave func(), err error) {
	bytes = min(bytes, r.bytesMax)
	if err := acquire(ctx, r.frames, 1, deadline); err != nil {
		return nil, fmt.Errorf("%w: %d frames are in flight: %w", series.ErrOverloaded, r.framesMax, err)
	}
	if err := acquire(ctx, r.bytes, bytes, deadline); err != nil {
		r.frames.Release(1)
		return nil, fmt.Errorf("%w: %d bytes of frames are in flight: %w", series.ErrOverloaded, r.bytesMax, err)
	}
	return func() {
		r.bytes.Release(bytes)
		r.frames.Release(1)
	}, nil
}

func acquire(ctx context.Context, s *semaphore.Weighted, n int64, deadline time.Time) error {
	if s.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return s.Acquire(ctx, n)
}
