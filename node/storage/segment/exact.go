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
	slices.SortFunc(spans, func(a, b ExactSpan) int { return cmp.Compare(a.FromMs, b.FromMs) })
	coveredMs := int64(math.MinInt64) // up to here earlier spans reach
	for i, s := range spans {
		from := max(s.FromMs, coveredMs)
		coveredMs = max(coveredMs, s.ToMs)
		to := s.ToMs
		if i+1 < len(spans) {
			to = min(to, spans[i+1].FromMs)
		}
		if from < to && readers[s.Reader].meta.Rollups {
			dst = append(dst, ExactSpan{from, to, s.Reader})
		}
	}
	return dst
}
