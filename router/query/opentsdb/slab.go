package opentsdb

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
