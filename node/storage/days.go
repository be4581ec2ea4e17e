package storage

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
)

// A read looks at the series alone that are marked on a day of its range. Whoever brings
// samples marks their series on all days of them, before anybody can see the samples: hot pages
// when the first sample of a day comes (page.Options), an installation and a repair on all days
// between the first sample of a series and the last. A flush marks again what it writes, for
// folders of programs that did not.

// markActive notes that a series has samples on the days of a range of time.
func (s *shard) markActive(id uint32, fromMs, toMs int64) {
	local, ok := s.engine.index.Local(s.number, series.ID(id))
	if !ok {
		return
	}
	days := index.DaysOf(fromMs, toMs)
	for day := days.From; day <= days.To; day++ {
		s.engine.index.MarkActive(day, local)
	}
}

// eachDay visits the days of times, which grow.
func eachDay(timesMs []int64, visit func(index.Day)) {
	for len(timesMs) > 0 {
		day := index.DayOf(timesMs[0])
		visit(day)
		if index.DayOf(timesMs[len(timesMs)-1]) == day {
			return // nearly always
		}
		next, _ := slices.BinarySearchFunc(timesMs, day+1, func(timeMs int64, day index.Day) int { return int(index.DayOf(timeMs)) - int(day) })
		timesMs = timesMs[next:]
	}
}

// markStored notes that a segment has samples of a series, whose times grow.
func (s *shard) markStored(id uint32, timesMs []int64) {
	if local, ok := s.engine.index.Local(s.number, series.ID(id)); ok {
		eachDay(timesMs, func(day index.Day) { s.engine.index.MarkStored(day, local) })
	}
}
