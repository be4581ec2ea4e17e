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
}

// ExactSpans appends to dst, in order of time, the stretches within which exactly
// one of the segments has blocks of the series, and that one has rollups: there a
// rollup is exact. Everything else in [fromMs, toMs] must be answered from
// samples; so must what newer pages or tombstones touch, which only the caller
// knows. The width is HourMs or DayMs; hours or days that lie partly in the range
// count as a whole. Errors are those of Find.
func ExactSpans(dst []ExactSpan, readers []*Reader, shard uint16, id uint32, fromMs, toMs, widthMs int64) ([]ExactSpan, error) {
	if widthMs != HourMs && widthMs != DayMs {
		return dst, ErrOptions
	}
	fromMs = floorTo(max(fromMs, math.MinInt64+DayMs), widthMs)
	toMs = floorTo(min(toMs, math.MaxInt64-DayMs), widthMs) + widthMs - 1
	var touched []ExactSpan
	var c Cursor
	for i, r := range readers {
		first := len(touched)
		if err := r.Find(&c, shard, id, fromMs, toMs); err != nil {
			return dst, err
		}
		for c.Next() {
			b := c.Block()
			from := max(fromMs, floorTo(b.MinMs, widthMs))
			to := min(toMs+1, floorTo(b.MaxMs, widthMs)+widthMs)
			if n := len(touched); n > first && from <= touched[n-1].ToMs {
				touched[n-1].ToMs = to
				continue
			}
			touched = append(touched, ExactSpan{from, to, i})
		}
		if err := c.Err(); err != nil {
			return dst, err
		}
	}
	return appendLone(dst, touched, readers), nil
}

// appendLone appends the parts of the spans that no other span overlaps.
func appendLone(dst, spans []ExactSpan, readers []*Reader) []ExactSpan {
	type edge struct {
		atMs  int64
		count int // of spans that begin, or −1 for one that ends
		sum   int // of their readers' indexes, which is the index when there is one
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, edge{s.FromMs, 1, s.Reader}, edge{s.ToMs, -1, -s.Reader})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.atMs, b.atMs) })
	count, reader, first := 0, 0, len(dst)
	for i, e := range edges {
		count += e.count
		reader += e.sum
		if count != 1 || edges[i+1].atMs == e.atMs || !readers[reader].meta.Rollups {
			continue
		}
		if n := len(dst); n > first && dst[n-1].ToMs == e.atMs && dst[n-1].Reader == reader {
			dst[n-1].ToMs = edges[i+1].atMs
			continue
		}
		dst = append(dst, ExactSpan{e.atMs, edges[i+1].atMs, reader})
	}
	return dst
}
