package fanout

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tickmesh/tickmesh/api/series"
)

// inFlightLimiter bounds the number of frames in flight and their bytes.
type inFlightLimiter struct {
	framesMax, bytesMax int64
	frames, bytes       *semaphore.Weighted
	held                *atomic.Int64 // bytes
}

func newInFlightLimiter(framesMax int, bytesMax int64) inFlightLimiter {
	r := inFlightLimiter{framesMax: max(1, int64(framesMax)), bytesMax: max(1, bytesMax)}
	r.frames, r.bytes, r.held = semaphore.NewWeighted(r.framesMax), semaphore.NewWeighted(r.bytesMax), new(atomic.Int64)
	return r
}

// acquire waits until a frame of that many bytes may be in flight; the caller must call
// release when it no longer is. A frame larger than the whole bound passes alone. Errors:
// series.ErrOverloaded.
func (l *inFlightLimiter) acquire(ctx context.Context, bytes int64, deadline time.Time) (release func(), err error) {
	bytes = min(bytes, l.bytesMax)
	if err := acquire(ctx, l.frames, 1, deadline); err != nil {
		return nil, fmt.Errorf("%w: %d frames are in flight: %w", series.ErrOverloaded, l.framesMax, err)
	}
	if err := acquire(ctx, l.bytes, bytes, deadline); err != nil {
		l.frames.Release(1)
		return nil, fmt.Errorf("%w: %d bytes of frames are in flight: %w", series.ErrOverloaded, l.bytesMax, err)
	}
	l.held.Add(bytes)
	return func() {
		l.held.Add(-bytes)
		l.bytes.Release(bytes)
		l.frames.Release(1)
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
