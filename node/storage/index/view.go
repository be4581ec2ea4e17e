package index

import "math/bits"

// view is the activity in a range of days as a query sees it.
type view struct {
	emptied *emptied
	hidden  *bitSet
	periods []*periodMarks // any mark in any of them counts
}

// view returns the activity in a range of days: of whole months where the range has them, or
// their days are not known.
func (a *activity) view(days Days) view { return a.viewWith(days, nil) }

// viewWith is view with a list that the periods are appended to.
func (a *activity) viewWith(days Days, periods []*periodMarks) view {
	v := view{emptied: &a.emptied, hidden: a.hidden, periods: periods}
	if !a.complete.Load() {
		days = AllDays()
	}
	for _, m := range monthsBetween(*a.months.Load(), days) {
		asked := m.within.overlap(days)
		known := m.days.Load()
		if known.coarse || asked == m.within {
			v.periods = append(v.periods, &m.series)
			continue
		}
		for day := asked.From; day <= asked.To; day++ {
			if p := known.of[day-m.within.From]; p != nil {
				v.periods = append(v.periods, p)
			}
		}
	}
	return v
}

func (v view) has(local uint32) bool {
	if v.emptied.has(local) || v.hidden.has(local) {
		return false
	}
	for _, p := range v.periods {
		if p.chunk(local).has(local) {
			return true
		}
	}
	return false
}

// word returns the marks of the 64 series from local on, a multiple of 64.
func (v view) word(local uint32) (w uint64) {
	gone := v.emptied.word(local) | v.hidden.word(local)
	for _, p := range v.periods {
		if w |= p.chunk(local).word(int(local % markBits / 64)); w == ^uint64(0) {
			break
		}
	}
	return w &^ gone
}

// appendFew appends the active series from lo to hi (excluded), as their distances from lo, and
// reports whether they are at most most. What it costs grows with most and the chunks that
// have any, not with hi−lo.
func (v view) appendFew(dst []uint32, lo, hi uint32, most int) ([]uint32, bool) {
	before := len(dst)
	var chunks []chunk
	for n := lo / markBits; n <= (hi-1)/markBits && lo < hi; n++ {
		first := n * markBits
		chunks = chunks[:0]
		for _, p := range v.periods {
			if c := p.chunk(first); !c.none() {
				chunks = append(chunks, c)
			}
		}
		if len(chunks) == 0 {
			continue
		}
		for i := range uint32(markWords) {
			at, w := first+i*64, uint64(0)
			if at >= hi || at+64 <= lo {
				continue
			}
			for _, c := range chunks {
				w |= c.word(int(i))
			}
			if at < lo {
				w &= ^uint64(0) << (lo - at)
			}
			if hi-at < 64 {
				w &= 1<<(hi-at) - 1
			}
			if w != 0 {
				w &^= v.emptied.word(at) | v.hidden.word(at)
			}
			if len(dst)-before+bits.OnesCount64(w) > most {
				return dst[:before], false
			}
			for ; w != 0; w &= w - 1 {
				dst = append(dst, at+uint32(bits.TrailingZeros64(w))-lo)
			}
		}
	}
	return dst, true
}

// active reports whether a series is marked on a day or, where days are not known, in its month.
func (a *activity) active(day Day, local uint32) bool {
	return a.view(Days{From: day, To: day}).has(local)
}
