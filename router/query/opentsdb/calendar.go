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
	number := dayNumber(year, month, day)
	switch c.unit {
	case "d":
		number = floorTo(number, c.n)
		return c.dayStart(number), c.dayStart(number + c.n)
	case "w":
		number = floorTo(number-sunday, 7*c.n) + sunday
		return c.dayStart(number), c.dayStart(number + 7*c.n)
	case "n":
		number = floorTo(int64(year-1970)*12+int64(month-1), c.n)
		return c.monthStart(number), c.monthStart(number + c.n)
	case "y":
		number = floorTo(int64(year-1970), c.n)
		return c.monthStart(number * 12), c.monthStart((number + c.n) * 12)
	}
	midnight := c.dayStart(number)
	start = midnight + floorTo(timeMs-midnight, c.stepMs())
	return start, min(start+c.stepMs(), c.dayStart(number+1))
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
// time.Date gives a moment of a day beside it: the day starts at the jump.
func (c calendar) dateStart(year int, month time.Month, day int) int64 {
	t := time.Date(year, month, day, 0, 0, 0, 0, c.location)
	if t.Day() == day {
		return t.UnixMilli()
	}
	before, after := t.ZoneBounds()
	if dayNumber(t.Date()) < dayNumber(year, month, day) {
		return after.UnixMilli()
	}
	return before.UnixMilli()
}
