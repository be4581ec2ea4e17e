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
	spec.Location = location
	return spec, nil
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
