package opentsdb

import "time"

// calendar cuts time at the calendar of a time zone, as DateTime.previousInterval does.
// Windows whose number divides the next larger unit begin at local midnights, Sundays,
// months of the year. Others are counted from the start of the larger unit that holds the
// query's start, and on from there: seconds from its hour, minutes from its day, hours
// from its month, days and months from its year, several weeks from its Sunday, and
// several years from its year.
//
// OpenTSDB does the same where it fills windows. Where it does not, it takes the first
// sample of each series for the query's start, and so may give series of one answer
// windows that differ; that is not copied. Nor are windows of less than a day that go on
// over a change of clocks: here these begin anew at midnight when they divide the day.
type calendar struct {
	n        int64
	unit     string // of splitDuration
	location *time.Location
	originMs int64 // the query's start
}

// start returns the start of the window that holds timeMs.
func (c calendar) start(timeMs int64) int64 {
	start, _ := c.window(timeMs)
	return start
}

// next returns the start of the window after the one that starts at startMs.
func (c calendar) next(startMs int64) int64 {
	_, next := c.window(startMs)
	return next
}

// window returns the start of the window that holds timeMs and of the one after it.
func (c calendar) window(timeMs int64) (start, next int64) {
	year, month, day := time.UnixMilli(timeMs).In(c.location).Date()
	origin := time.UnixMilli(c.originMs).In(c.location)
	switch c.unit {
	case "d":
		first := dayNumber(origin.Year(), time.January, 1)
		return windowOf(timeMs, first+floorTo(dayNumber(year, month, day)-first, c.n), c.n, c.dayStart)
	case "w":
		first := floorTo(dayNumber(origin.Date())-sunday, 7) + sunday
		return windowOf(timeMs, first+floorTo(dayNumber(year, month, day)-first, 7*c.n), 7*c.n, c.dayStart)
	case "n":
		first := int64(origin.Year()-1970) * 12
		return windowOf(timeMs, first+floorTo(int64(year-1970)*12+int64(month-1)-first, c.n), c.n, c.monthStart)
	case "y":
		first := int64(origin.Year())
		return windowOf(timeMs, (first+floorTo(int64(year)-first, c.n)-1970)*12, c.n*12, c.monthStart)
	}
	if larger := map[string]int64{"ms": 1000, "s": 60, "m": 60, "h": 24}[c.unit]; larger%c.n != 0 {
		top := c.top(origin)
		start = top + floorTo(timeMs-top, c.stepMs())
		return start, start + c.stepMs()
	}
	midnight, nextMidnight := windowOf(timeMs, dayNumber(year, month, day), 1, c.dayStart)
	start = midnight + floorTo(timeMs-midnight, c.stepMs())
	return start, min(start+c.stepMs(), nextMidnight)
}

// top returns the start of the larger unit that holds a time, for units below a day.
func (c calendar) top(t time.Time) int64 {
	switch c.unit {
	case "ms":
		return t.UnixMilli() - int64(t.Second())*secondMs - int64(t.Nanosecond())/int64(time.Millisecond)
	case "s":
		return t.UnixMilli() - int64(60*t.Minute()+t.Second())*secondMs - int64(t.Nanosecond())/int64(time.Millisecond)
	case "m":
		return c.dateStart(t.Date())
	}
	return c.dateStart(t.Year(), t.Month(), 1)
}

// windowOf returns the starts of the window that begins with unit number, or of the
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

// dayStart returns the first moment of a local day.
func (c calendar) dayStart(number int64) int64 {
	year, month, day := time.UnixMilli(number * dayMs).UTC().Date()
	return c.dateStart(year, month, day)
}

func (c calendar) monthStart(number int64) int64 {
	t := time.Date(1970, time.Month(1+number), 1, 0, 0, 0, 0, time.UTC)
	return c.dateStart(t.Date())
}

// dateStart finds the first moment of a date. Where clocks jump over midnight,
// time.Date returns a time of a day beside it: the day starts at the jump. Where
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
