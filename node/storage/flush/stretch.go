package flush

import (
	"cmp"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// A series with more pages than pagesAtOnce is written in ranges of time of
// about samplesAtOnce samples, so that the memory for its samples is bounded: a
// page of 128 bytes may have up to a thousand.
const (
	pagesAtOnce   = 1024
	samplesAtOnce = 64 << 10
)

// pageExtent describes which time a page's samples take.
type pageExtent struct {
	number  int32 // of the page, in the order of writing
	samples int32
	within  segment.TimeRange
}

// spanOf returns the span from the least to the greatest time.
func spanOf(times []int64) segment.TimeRange {
	s := segment.NoTime()
	for _, t := range times {
		s.FromMs, s.ToMs = min(s.FromMs, t), max(s.ToMs, t)
	}
	return s
}

// eachRange cuts time into ranges, in order, and visits each with the numbers
// of the pages that have samples in it, in the order of writing. A range ends
// before a page begins when those that began in it have samplesMax samples. Pages
// that reach into several ranges are in each: only where many pages of one
// series overlap may a range have more samples. Pages without time come in the
// first range. It sorts the extents.
func eachRange(extents []pageExtent, samplesMax int, visit func(within segment.TimeRange, numbers []int32) error) error {
	slices.SortFunc(extents, func(a, b pageExtent) int {
		return cmp.Or(cmp.Compare(a.within.FromMs, b.within.FromMs), cmp.Compare(a.number, b.number))
	})
	var numbers []int32
	var reaching []pageExtent // pages of this range that may reach into the next
	fromMs, samples := int64(math.MinInt64), 0
	end := func(toMs int64) error {
		numbers = numbers[:0]
		for i := range reaching {
			numbers = append(numbers, reaching[i].number)
		}
		slices.Sort(numbers)
		err := visit(segment.TimeRange{FromMs: fromMs, ToMs: toMs}, numbers)
		reaching = slices.DeleteFunc(reaching, func(e pageExtent) bool { return e.within.ToMs <= toMs })
		fromMs, samples = toMs+1, 0
		return err
	}
	for i := range extents {
		e := &extents[i]
		if samples >= samplesMax && e.within.FromMs > fromMs && e.samples > 0 {
			if err := end(e.within.FromMs - 1); err != nil {
				return err
			}
		}
		reaching = append(reaching, *e)
		samples += int(e.samples)
	}
	return end(math.MaxInt64)
}
