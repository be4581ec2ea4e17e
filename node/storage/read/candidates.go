package read

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// likelySegments are the candidates that were found last.
type likelySegments struct {
	known    bool
	shard    uint16
	within   segment.TimeRange
	segments []int32

	overlapsKnown, overlap bool
}

// candidates returns the numbers of the segments that can have visible samples of a shard
// within a range. Series come shard by shard, and a node that has just been rebuilt has
// thousands of segments with one shard each: they are not looked through for each series.
func (r *Reader) candidates(shard uint16, fromMs, toMs int64) []int32 {
	l := &r.likely
	if l.known && l.shard == shard && l.within == (segment.TimeRange{FromMs: fromMs, ToMs: toMs}) {
		return l.segments
	}
	l.overlapsKnown = false
	l.known, l.shard, l.within, l.segments = true, shard, segment.TimeRange{FromMs: fromMs, ToMs: toMs}, l.segments[:0]
	for i, reader := range r.Version.Segments {
		m := reader.Meta()
		if m.MaxMs >= fromMs && m.MinMs <= toMs && shard >= m.ShardLow && shard <= m.ShardHigh && !r.Version.Hides(m, shard) {
			l.segments = append(l.segments, int32(i))
		}
	}
	return l.segments
}

// overlaps reports whether the times of two of the candidates overlap, so that both may have hours of a day.
func (r *Reader) overlaps(shard uint16, fromMs, toMs int64) bool {
	candidates, l := r.candidates(shard, fromMs, toMs), &r.likely
	if l.overlapsKnown {
		return l.overlap
	}
	ranges := make([]segment.TimeRange, 0, len(candidates))
	for _, i := range candidates {
		m := r.Version.Segments[i].Meta()
		ranges = append(ranges, segment.TimeRange{FromMs: floorTo(m.MinMs, segment.DayMs), ToMs: floorTo(m.MaxMs, segment.DayMs)})
	}
	slices.SortFunc(ranges, func(a, b segment.TimeRange) int { return cmp.Compare(a.FromMs, b.FromMs) })
	l.overlapsKnown, l.overlap = true, false
	for i := 1; i < len(ranges); i++ {
		l.overlap = l.overlap || ranges[i].FromMs <= ranges[i-1].ToMs
		ranges[i].ToMs = max(ranges[i].ToMs, ranges[i-1].ToMs)
	}
	return l.overlap
}
