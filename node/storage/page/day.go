package page

// day is a day in UTC; the zero day has no times.
type day struct{ fromMs, endMs int64 } // the end is not in it

const dayMs = 24 * 3600 * 1000

func dayOf(timeMs int64) day {
	of := timeMs % dayMs
	if of < 0 {
		of += dayMs
	}
	return day{fromMs: timeMs - of, endMs: timeMs - of + dayMs}
}

func (d day) has(timeMs int64) bool { return timeMs >= d.fromMs && timeMs < d.endMs }

func (s *Set) tellDay(id uint32, timeMs int64) {
	if s.onDay != nil {
		s.onDay(id, timeMs)
	}
}
