package opentsdb

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
)

// budget counts the bytes that one request holds, and those that all requests
// hold. It is safe for concurrent use.
type budget struct {
	limit int64 // 0: none
	used  atomic.Int64
	all   *sharedBudget
}

// sharedBudget counts the bytes that all requests hold together.
type sharedBudget struct {
	limit int64 // 0: none
	used  atomic.Int64
}

// newBudget gives the budget of one request, which must be closed.
func (h *handler) newBudget() *budget { return &budget{limit: h.limits.BytesMax, all: &h.memory} }

// take adds to the count. Errors: a *scan.LimitError beyond the request's limit,
// and 503 beyond that of all requests.
func (b *budget) take(bytes int64) error {
	if b.used.Add(bytes) > b.limit && b.limit > 0 {
		b.all.used.Add(bytes)
		return &scan.LimitError{What: "bytes", Limit: b.limit}
	}
	if b.all.used.Add(bytes) > b.all.limit && b.all.limit > 0 {
		return &apiError{status: http.StatusServiceUnavailable, message: fmt.Sprintf(
			"the queries that are running need more than %d bytes together: try again later", b.all.limit)}
	}
	return nil
}

// give takes from the count what is not held any more.
func (b *budget) give(bytes int64) {
	b.used.Add(-bytes)
	b.all.used.Add(-bytes)
}

// close gives everything back that the request still holds.
func (b *budget) close() { b.give(b.used.Load()) }

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
