package ingest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tickmesh/tickmesh/api/series"
)

// errBudget: all in-flight bytes are taken.
var errBudget = fmt.Errorf("%w: too many bytes in flight", series.ErrOverloaded)

// budget bounds the bytes that requests hold at once. Who waits is served in
// order of arrival.
type budget struct {
	room    *semaphore.Weighted
	waitMax time.Duration
	used    atomic.Int64
}

func newBudget(bytesMax int64, waitMax time.Duration) *budget {
	return &budget{room: semaphore.NewWeighted(bytesMax), waitMax: waitMax}
}

// take waits for n bytes, until ctx ends and waitMax at most. Requests that grow
// while they hold some may wait for each other; then waitMax ends one of them.
func (b *budget) take(ctx context.Context, n int) error {
	if !b.room.TryAcquire(int64(n)) {
		ctx, cancel := context.WithTimeout(ctx, b.waitMax)
		defer cancel()
		if b.room.Acquire(ctx, int64(n)) != nil {
			return errBudget
		}
	}
	b.used.Add(int64(n))
	return nil
}

func (b *budget) giveBack(n int) {
	if n > 0 {
		b.used.Add(-int64(n))
		b.room.Release(int64(n))
	}
}
