package opentsdb

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
)

// budget counts the bytes that one request holds. It is safe for concurrent use.
type budget struct {
	limit int64 // 0: none
	used  atomic.Int64
}

// take adds to the count, and returns a *scan.LimitError beyond the limit.
func (b *budget) take(bytes int64) error {
	if b.used.Add(bytes) > b.limit && b.limit > 0 {
		return &scan.LimitError{What: "bytes", Limit: b.limit}
	}
	return nil
}

// give takes from the count what is not held any more.
func (b *budget) give(bytes int64) { b.used.Add(-bytes) }

// slab hands out slices of large blocks, one block for many series.
type slab[T any] struct {
	block []T
	size  int // elements of the last block
}

const (
	slabElementsMin = 1 << 9
	slabElementsMax = 1 << 15
)

// take gives a slice of n elements, and how many elements were newly held for it.
func (s *slab[T]) take(n int) (slice []T, grown int) {
	if n > len(s.block) {
		s.size = max(n, min(max(2*s.size, slabElementsMin), slabElementsMax))
		s.block = make([]T, s.size)
		grown = s.size
	}
	slice, s.block = s.block[:n:n], s.block[n:]
	return slice, grown
}
