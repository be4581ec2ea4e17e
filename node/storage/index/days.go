package index

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// A read looks at the series alone that are marked on a day of its range. Whoever brings
// samples marks their series on all days of them, before anybody can see the samples: hot pages
// when the first sample of a day comes (page.Options), an installation and a repair on all days
// between the first sample of a series and the last. A flush marks again what it writes, for
// folders of programs that did not.

// MarkActiveWithin notes that a series has samples on the days of a range of time.
func (x *Index) MarkActiveWithin(shard uint16, id series.ID, fromMs, toMs int64) {
	local, ok := x.Local(shard, id)
	if !ok {
		return
	}
	days := DaysOf(fromMs, toMs)
	for day := days.From; day <= days.To; day++ {
		x.MarkActive(day, local)
	}
}

// MarkStoredAt notes that a segment has samples of a series, whose times grow.
func (x *Index) MarkStoredAt(shard uint16, id series.ID, timesMs []int64) {
	if local, ok := x.Local(shard, id); ok && !x.forgets.has(shard, id) {
		eachDay(timesMs, func(day Day) { x.MarkStored(day, local) })
	}
}

// eachDay visits the days of times, which grow.
func eachDay(timesMs []int64, visit func(Day)) {
	for len(timesMs) > 0 {
		day := DayOf(timesMs[0])
		visit(day)
		if DayOf(timesMs[len(timesMs)-1]) == day {
			return // nearly always
		}
		next, _ := slices.BinarySearchFunc(timesMs, day+1, func(timeMs int64, day Day) int { return int(DayOf(timeMs)) - int(day) })
		timesMs = timesMs[next:]
	}
}
