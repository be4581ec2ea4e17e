// Package calendar reads the times of schedules, as cron says them, in a time zone. It is pure.
package calendar

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Times are times that come again and again.
type Times interface {
	// Next returns the first time after t; zero: there is none, as of 30 February.
	Next(t time.Time) time.Time
}

// Parse returns the times of a schedule in a time zone; empty: UTC. Errors begin with the name of
// the field that cannot be read, schedule or timeZone.
func Parse(schedule, zone string) (Times, error) {
	location, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("timeZone: there is no time zone %q", zone)
	}
	if strings.Contains(schedule, "=") { // the library panics where "TZ=" has no end
		return nil, fmt.Errorf("schedule: %q has a time zone: name it in timeZone", schedule)
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("schedule: %q has no fixed times", schedule)
	}
	return zoned{*spec, location}, nil
}

// zoned are the times of a schedule in a time zone whose clocks may be set. A local time that a change of clocks
// leaves out has the offset of before the change, as RFC 5545 (3.3.5) has it: 02:30 comes an hour after 01:30, and
// the clock shows 03:30. One that a change brings twice comes twice.
//
// The library is only asked about fixed offsets: it leaves days out, or does not end, at some changes of clocks.
type zoned struct {
	schedule cron.SpecSchedule
	location *time.Location
}

// yearsMax is after how much time without one the library takes a schedule for one that never comes.
const yearsMax = 5

// Next implements Times.
func (z zoned) Next(t time.Time) time.Time {
	for at := t; at.Before(t.AddDate(yearsMax, 0, 0)); {
		begin, end := at.In(z.location).ZoneBounds()
		next := z.within(at, t)
		if left := z.leftOut(begin, t); !left.IsZero() && (next.IsZero() || left.Before(next)) {
			next = left
		}
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next
		}
		at = end
	}
	return time.Time{}
}

// within returns the first time from at on and after t, by the offset that holds at at.
func (z zoned) within(at, t time.Time) time.Time {
	_, offset := at.In(z.location).Zone()
	return z.byOffset(offset, at, t)
}

// leftOut returns the first time after t of those that a change of clocks leaves out; zero: there is none.
func (z zoned) leftOut(change, t time.Time) time.Time {
	if change.IsZero() {
		return change
	}
	_, before := change.Add(-time.Nanosecond).Zone()
	_, after := change.Zone()
	if left := z.byOffset(before, change, t); left.Before(change.Add(time.Duration(after-before) * time.Second)) {
		return left
	}
	return time.Time{}
}

// byOffset returns the first time from at on and after t, as if the offset always held; zero: there is none.
func (z zoned) byOffset(offset int, at, t time.Time) time.Time {
	if at = at.Add(-time.Nanosecond); at.Before(t) {
		at = t
	}
	fixed := z.schedule
	fixed.Location = time.FixedZone("", offset)
	return fixed.Next(at).In(z.location)
}

// Latest returns the last time after one time and up to another; zero: there is none. It looks
// back in growing steps, as there may be very many.
func Latest(times Times, after, now time.Time) (last time.Time) {
	const day = 24 * time.Hour
	for _, back := range []time.Duration{time.Hour, day, 40 * day, 400 * day, 4000 * day, 40_000 * day} {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		for t := times.Next(from); !t.IsZero() && !t.After(now); t = times.Next(t) {
			last = t
		}
		if !last.IsZero() || from.Equal(after) {
			return last
		}
	}
	return last
}
