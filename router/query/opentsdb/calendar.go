package opentsdb

import "time"

// calendar cuts time at the calendar of a time zone. Units below a day start
// at local midnight and start anew there; days and weeks are counted from the
// first Sunday of 1970, months and years from January 1970. For numbers that
// divide the next larger unit that is what OpenTSDB does, whose other windows
// depend on where the data starts.
type calendar struct {
	n        int64
	unit     string // of splitDuration
	location *time.Location
}

// start gives the start of the window that holds timeMs.
func (c calendar) start(timeMs int64) int64 {
	start, _ := c.window(timeMs)
	return start
}

// next gives the start of the window after the one that starts at startMs.
func (c calendar) next(startMs int64) int64 {
	_, next := c.window(startMs)
	return next
}

// window gives the start of the window that holds timeMs and of the one after it.
func (c calendar) window(timeMs int64) (start, next int64) {
	year, month, day := time.UnixMilli(timeMs).In(c.location).Date()
	switch c.unit {
	case "d":
		return windowOf(timeMs, floorTo(dayNumber(year, month, day), c.n), c.n, c.dayStart)
	case "w":
		return windowOf(timeMs, floorTo(dayNumber(year, month, day)-sunday, 7*c.n)+sunday, 7*c.n, c.dayStart)
	case "n":
		return windowOf(timeMs, floorTo(int64(year-1970)*12+int64(month-1), c.n), c.n, c.monthStart)
	case "y":
		return windowOf(timeMs, floorTo(int64(year-1970), c.n)*12, c.n*12, c.monthStart)
	}
	midnight, nextMidnight := windowOf(timeMs, dayNumber(year, month, day), 1, c.dayStart)
	start = midnight + floorTo(timeMs-midnight, c.stepMs())
	return start, min(start+c.stepMs(), nextMidnight)
}

// windowOf gives the starts of the window that begins with unit number, or of the
// one after it when timeMs is there already: where clocks go back over midnight, a
// date comes a second time after the next one has begun. It counts for that one.
func windowOf(timeMs, number, width int64, startOf func(number int64) int64) (start, next int64) {
	start, next = startOf(number), startOf(number+width)
	if timeMs >= next {
		start, next = next, startOf(number+2*width)
	}
	return start, next
}

// stepMs is the width of windows below a day.
func (c calendar) stepMs() int64 {
	switch c.unit {
	case "ms":
		return c.n
	case "s":
		return c.n * secondMs
	case "m":
		return c.n * 60 * secondMs
	}
	return c.n * hourMs
}

// sunday is the number of the first Sunday after the epoch, 1970-01-04.
const sunday = 3

// dayNumber counts days since the epoch.
func dayNumber(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).UnixMilli() / dayMs
}

// dayStart gives the first moment of a local day.
func (c calendar) dayStart(number int64) int64 {
	year, month, day := time.UnixMilli(number * dayMs).UTC().Date()
	return c.dateStart(year, month, day)
}

func (c calendar) monthStart(number int64) int64 {
	t := time.Date(1970, time.Month(1+number), 1, 0, 0, 0, 0, time.UTC)
	return c.dateStart(t.Date())
}

// dateStart finds the first moment of a date. Where clocks jump over midnight,
// time.Date gives a moment of a day beside it: the day starts at the jump. Where
// they go back over midnight there are two, and time.Date may give the second.
func (c calendar) dateStart(year int, month time.Month, day int) int64 {
	t := time.Date(year, month, day, 0, 0, 0, 0, c.location)
	before, after := t.ZoneBounds()
	if t.Day() != day {
		if dayNumber(t.Date()) < dayNumber(year, month, day) {
			return after.UnixMilli()
		}
		return before.UnixMilli()
	}
	if !before.IsZero() {
		_, offset := t.Zone()
		_, offsetBefore := before.Add(-time.Second).Zone()
		if first := t.Add(time.Duration(offset-offsetBefore) * time.Second); first.Before(before) {
			return first.UnixMilli()
		}
	}
	return t.UnixMilli()
}
