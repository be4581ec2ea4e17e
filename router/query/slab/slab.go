// Package slab makes many small slices of few allocations.
package slab

// Slab hands out slices of large blocks, one block for many series. The zero value is ready.
type Slab[T any] struct {
	block []T
	size  int // elements of the last block
}

const (
	elementsMin = 1 << 3 // a query of the newest value of one series needs one
	elementsMax = 1 << 15
)

// Take returns a slice of n elements, and how many elements were newly held for it.
func (s *Slab[T]) Take(n int) (slice []T, grown int) {
	if n > len(s.block) {
		s.size = max(n, min(max(2*s.size, elementsMin), elementsMax))
		s.block = make([]T, s.size)
		grown = s.size
	}
	slice, s.block = s.block[:n:n], s.block[n:]
	return slice, grown
}
