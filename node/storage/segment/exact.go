package segment

import (
	"cmp"
	"math"
	"slices"
)

// ExactSpan is a stretch of time [FromMs, ToMs) in which the rollups of one
// segment tell all that the segments know of a series.
type ExactSpan struct {
	FromMs, ToMs int64 // multiples of the rollups' width
	Reader       int   // index into the list of segments
	Samples      int64 // that the segment has of it; SamplesUnknown where that would have to be read
}

// SamplesUnknown is the number of samples of a span that cuts a block.
const SamplesUnknown = -1

// ExactSpans finds exact spans of one series after the other. Its memory is used
// again. It is not safe for concurrent use.
type ExactSpans struct {
	touched []ExactSpan // by reader and time
	edges   []edge
}

// edge is a moment at which the blocks of a segment begin or end.
type edge struct {
	atMs  int64
	count int // of spans that begin, or −1 for one that ends
	sum   int // of their readers' indexes, which is the index when there is one
}

// Find appends to dst, in order of time, the stretches within which exactly one of the
// segments has blocks of the series, and useful reports that it has the rollups that are
// wanted: there a rollup is exact. Everything else in [fromMs, toMs] must be answered from
// samples; so must what newer pages or tombstones touch, which only the caller
// knows. The width is HourMs or DayMs; hours or days that lie partly in the range
// count as a whole. Cursor returns the cursor to use for a reader. Errors are those of
// Reader.Find.
func (x *ExactSpans) Find(dst []ExactSpan, readers []*Reader, cursor func(reader int) *Cursor, shard uint16, id uint32, fromMs, toMs, widthMs int64, useful func(*Meta) bool) ([]ExactSpan, error) {
	if widthMs != HourMs && widthMs != DayMs {
		return dst, ErrOptions
	}
	fromMs = floorTo(max(fromMs, math.MinInt64+DayMs), widthMs)
	toMs = floorTo(min(toMs, math.MaxInt64-2*DayMs), widthMs) + widthMs - 1
	x.touched = x.touched[:0]
	for i, r := range readers {
		first, c := len(x.touched), cursor(i)
		if err := r.Find(c, shard, id, fromMs, toMs); err != nil {
			return dst, err
		}
		for c.Next() {
			b := c.Block()
			from := max(fromMs, floorTo(b.MinMs, widthMs))
			to := min(toMs+1, floorTo(b.MaxMs, widthMs)+widthMs)
			samples := int64(SamplesUnknown)
			if b.MinMs >= fromMs && b.MaxMs <= toMs {
				samples = int64(b.Samples)
			}
			if n := len(x.touched); n > first && from <= x.touched[n-1].ToMs {
				last := &x.touched[n-1]
				last.ToMs, last.Samples = to, SumOfKnown(last.Samples, samples)
				continue
			}
			x.touched = append(x.touched, ExactSpan{from, to, i, samples})
		}
		if err := c.Err(); err != nil {
			return dst, err
		}
	}
	return x.appendLone(dst, func(reader int) bool { return useful(&readers[reader].meta) }), nil
}

// SumOfKnown returns the sum of two numbers of samples, or SamplesUnknown.
func SumOfKnown(a, b int64) int64 {
	if a == SamplesUnknown || b == SamplesUnknown {
		return SamplesUnknown
	}
	return a + b
}

// appendLone appends the parts of the touched spans that no other one overlaps, of the
// readers that are of use.
func (x *ExactSpans) appendLone(dst []ExactSpan, useful func(reader int) bool) []ExactSpan {
	edges := x.edges[:0]
	for _, s := range x.touched {
		edges = append(edges, edge{s.FromMs, 1, s.Reader}, edge{s.ToMs, -1, -s.Reader})
	}
	x.edges = edges
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.atMs, b.atMs) })
	count, reader, first := 0, 0, len(dst)
	for i, e := range edges {
		count += e.count
		reader += e.sum
		if count != 1 || edges[i+1].atMs == e.atMs || !useful(reader) {
			continue
		}
		if n := len(dst); n > first && dst[n-1].ToMs == e.atMs && dst[n-1].Reader == reader {
			dst[n-1].ToMs = edges[i+1].atMs
			continue
		}
		dst = append(dst, ExactSpan{e.atMs, edges[i+1].atMs, reader, SamplesUnknown})
	}
	for i := first; i < len(dst); i++ {
		dst[i].Samples = x.samplesOf(&dst[i])
	}
	return dst
}

// samplesOf returns the samples of a span that is touched as a whole.
func (x *ExactSpans) samplesOf(s *ExactSpan) int64 {
	n, ok := slices.BinarySearchFunc(x.touched, s, func(touched ExactSpan, s *ExactSpan) int {
		return cmp.Or(cmp.Compare(touched.Reader, s.Reader), cmp.Compare(touched.FromMs, s.FromMs))
	})
	if !ok || x.touched[n].ToMs != s.ToMs {
		return SamplesUnknown
	}
	return x.touched[n].Samples
}
