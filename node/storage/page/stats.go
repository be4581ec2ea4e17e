package page

// Stats are a set's figures. All sizes are in bytes.
type Stats struct {
	Series          int          // that have a newest sample
	Pages           [classes]int // in use, of 32, 64 and 128 bytes, those out of order too
	PagesFree       [classes]int // in the slabs, to be used again
	PagesOutOfOrder int
	HeadBytes       int // memory of heads
	PageBytes       int // memory of pages, used or free
	OutOfOrderBytes int // memory of the heads of out-of-order pages
}

// Bytes is all memory of the set but for a fixed part of less than 16 KiB.
func (s Stats) Bytes() int { return s.HeadBytes + s.PageBytes + s.OutOfOrderBytes }

// Series returns the number of series that have a newest sample. It changes with
// the first sample of a series after the start, a ForgetLast or a Retire.
func (s *Set) Series() int { return s.series }

// Stats returns the set's figures. It looks at each chunk of memory.
func (s *Set) Stats() Stats {
	stats := Stats{
		Series:          s.series,
		PagesOutOfOrder: s.late.count,
		HeadBytes:       s.heads.bytes(),
		OutOfOrderBytes: s.late.bytes(),
	}
	for class := range s.slabs {
		slab := &s.slabs[class]
		stats.Pages[class] = int(slab.live)
		stats.PagesFree[class] = int(slab.used - slab.live)
		stats.PageBytes += slab.memory.bytes()
	}
	return stats
}
