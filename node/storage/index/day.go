package index

import (
	"fmt"
	"time"
)

// Day is a calendar day in UTC, counted from January 1, 1970. Earlier times belong to day 0
// and times after December 2199 to DayMax, as they do with Month.
type Day uint32

// DayMax is the last day, December 31, 2199 and all that follows.
const DayMax Day = 84005

const dayMs = 24 * 3600 * 1000

// DayOf returns the day of a time in milliseconds since the Unix epoch.
func DayOf(timeMs int64) Day {
	if timeMs < 0 {
		return 0
	}
	return Day(min(timeMs/dayMs, int64(DayMax)))
}

// Month returns the month that the day is in.
func (d Day) Month() Month { return MonthOf(int64(d) * dayMs) }

// String returns the day as 2006-01-02.
func (d Day) String() string { return time.UnixMilli(int64(d) * dayMs).UTC().Format(time.DateOnly) }

// Days is a range of days, both ends included.
type Days struct{ From, To Day }

// AllDays is the range of all days.
func AllDays() Days { return Days{From: 0, To: DayMax} }

// DaysOf returns the days of the times in [fromMs, toMs].
func DaysOf(fromMs, toMs int64) Days { return Days{From: DayOf(fromMs), To: DayOf(toMs)} }

// overlap returns the days that two ranges share; none if From is after To.
func (d Days) overlap(o Days) Days { return Days{From: max(d.From, o.From), To: min(d.To, o.To)} }

// has reports whether a day is in the range.
func (d Days) has(day Day) bool { return day >= d.From && day <= d.To }

// Days returns the days of the month.
func (m Month) Days() Days {
	first := time.Date(1970, time.Month(1+int(m)), 1, 0, 0, 0, 0, time.UTC)
	return Days{From: DayOf(first.UnixMilli()), To: DayOf(first.AddDate(0, 1, 0).UnixMilli() - 1)}
}

// parseDay returns the day that String made text of.
func parseDay(text string) (Day, bool) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1970 || at.Year() >= 2200 {
		return 0, false
	}
	return DayOf(at.UnixMilli()), true
}

// parseMonth is parseDay of a month.
func parseMonth(text string) (Month, bool) {
	var year, month int
	if n, err := fmt.Sscanf(text, "%4d-%2d", &year, &month); n != 2 || err != nil {
		return 0, false
	}
	n := (year-1970)*12 + month - 1
	if n < 0 || n > int(MonthMax) || Month(n).String() != text {
		return 0, false
	}
	return Month(n), true
}
