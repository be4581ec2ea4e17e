package codec

import "slices"

// KeepColumns removes the samples from index start on whose time is not to be kept.
func KeepColumns(c *Columns, start int, keep func(timeMs int64) bool) {
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

// SortColumns moves src to dst in order of time; of equal times the last wins. What
// is in src then is of no use but for its memory.
func SortColumns(src, dst *Columns, scratch *[]int32) {
	if Growing(src.Times) {
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

// SortPoints puts points into order of time in place; of equal times the last wins.
func SortPoints(p *Points, scratch *Points, order *[]int32) {
	if Growing(p.Times) {
		return
	}
	*order = timeOrder(p.Times, (*order)[:0])
	scratch.Times, scratch.Values = slices.Grow(scratch.Times[:0], len(*order)), slices.Grow(scratch.Values[:0], len(*order))
	for _, i := range *order {
		scratch.Times = append(scratch.Times, p.Times[i])
		scratch.Values = append(scratch.Values, p.Values[i])
	}
	*p, *scratch = *scratch, *p
}

// Growing reports whether each time is later than the one before it.
func Growing(times []int64) bool {
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
	order = slices.Grow(order, len(times))
	for i := range times {
		order = append(order, int32(i))
	}
	// Not SortStableFunc, which is many times slower: the later of equal times is the one with the higher index.
	slices.SortFunc(order, func(a, b int32) int {
		switch x, y := times[a], times[b]; {
		case x < y || x == y && a < b:
			return -1
		default:
			return 1
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
