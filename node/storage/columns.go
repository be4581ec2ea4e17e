package storage

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// dropHidden removes the samples from index start on that lie in one of the spans.
func dropHidden(c *codec.Columns, start int, spans []span) {
	keepColumns(c, start, func(timeMs int64) bool { return !hidden(spans, timeMs) })
}

// keepColumns removes the samples from index start on whose time is not to be kept.
func keepColumns(c *codec.Columns, start int, keep func(timeMs int64) bool) {
	kept := start
	for i := start; i < len(c.Times); i++ {
		if !keep(c.Times[i]) {
			continue
		}
		c.Times[kept], c.Mantissas[kept], c.Scales[kept] = c.Times[i], c.Mantissas[i], c.Scales[i]
		kept++
	}
	c.Times, c.Mantissas, c.Scales = c.Times[:kept], c.Mantissas[:kept], c.Scales[:kept]
}

// sortColumns moves src to dst in order of time; of equal times the last wins. What
// is in src then is of no use but for its memory.
func sortColumns(src, dst *codec.Columns, scratch *[]int32) {
	if strictlyGrowing(src.Times) {
		*src, *dst = *dst, *src
		return
	}
	dst.Reset()
	order := timeOrder(src.Times, (*scratch)[:0])
	*scratch = order
	for _, i := range order {
		dst.Times = append(dst.Times, src.Times[i])
		dst.Mantissas = append(dst.Mantissas, src.Mantissas[i])
		dst.Scales = append(dst.Scales, src.Scales[i])
	}
}

// sortPoints puts points into order of time in place; of equal times the last wins.
func sortPoints(p *codec.Points, scratch *codec.Points, order *[]int32) {
	if strictlyGrowing(p.Times) {
		return
	}
	*order = timeOrder(p.Times, (*order)[:0])
	scratch.Reset()
	for _, i := range *order {
		scratch.Times = append(scratch.Times, p.Times[i])
		scratch.Values = append(scratch.Values, p.Values[i])
	}
	*p, *scratch = *scratch, *p
}

func strictlyGrowing(times []int64) bool {
	if len(times) == 0 {
		return true
	}
	before := times[0]
	for _, t := range times[1:] {
		if t <= before {
			return false
		}
		before = t
	}
	return true
}

// timeOrder returns the indexes of times in order, without those whose time comes
// again later in the slice.
func timeOrder(times []int64, order []int32) []int32 {
	for i := range times {
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := times[a], times[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		default:
			return 0
		}
	})
	kept := 0
	for i, at := range order {
		if i+1 < len(order) && times[order[i+1]] == times[at] {
			continue
		}
		order[kept] = at
		kept++
	}
	return order[:kept]
}
