package storage

import (
	"cmp"
	"math"
	"slices"
)

// A series with more pages than pagesAtOnce is written in stretches of time of
// about samplesAtOnce samples, so that the memory for its samples is bounded: a
// page of 128 bytes may have up to a thousand.
const (
	pagesAtOnce   = 1024
	samplesAtOnce = 64 << 10
)

// The spans of all time, and of none.
var (
	allTime = span{math.MinInt64, math.MaxInt64} //nolint:gochecknoglobals // a constant
	noTime  = span{math.MaxInt64, math.MinInt64} //nolint:gochecknoglobals // a constant
)

// pageExtent says which time a page's samples take.
type pageExtent struct {
	number  int32 // of the page, in the order of writing
	samples int32
	within  span
}

// spanOf returns the span from the least to the greatest time.
func spanOf(times []int64) span {
	s := noTime
	for _, t := range times {
		s.fromMs, s.toMs = min(s.fromMs, t), max(s.toMs, t)
	}
	return s
}

// eachStretch cuts time into stretches, in order, and visits each with the numbers
// of the pages that have samples in it, in the order of writing. A stretch ends
// before a page begins when those that began in it have samplesMax samples. Pages
// that reach into several stretches are in each: only where many pages of one
// series overlap may a stretch have more samples. Pages without time come in the
// first stretch. It sorts the extents.
func eachStretch(extents []pageExtent, samplesMax int, visit func(within span, numbers []int32) error) error {
	slices.SortFunc(extents, func(a, b pageExtent) int {
		return cmp.Or(cmp.Compare(a.within.fromMs, b.within.fromMs), cmp.Compare(a.number, b.number))
	})
	var numbers []int32
	var reaching []pageExtent // pages of this stretch that may reach into the next
	fromMs, samples := int64(math.MinInt64), 0
	end := func(toMs int64) error {
		numbers = numbers[:0]
		for i := range reaching {
			numbers = append(numbers, reaching[i].number)
		}
		slices.Sort(numbers)
		err := visit(span{fromMs, toMs}, numbers)
		reaching = slices.DeleteFunc(reaching, func(e pageExtent) bool { return e.within.toMs <= toMs })
		fromMs, samples = toMs+1, 0
		return err
	}
	for i := range extents {
		e := &extents[i]
		if samples >= samplesMax && e.within.fromMs > fromMs && e.samples > 0 {
			if err := end(e.within.fromMs - 1); err != nil {
				return err
			}
		}
		reaching = append(reaching, *e)
		samples += int(e.samples)
	}
	return end(math.MaxInt64)
}
