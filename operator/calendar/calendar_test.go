package calendar

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawSchedule(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"* * * * *", "*/7 * * * *", "30 2 * * *", "0 3 * * 0", "15 1 1 * *", "@hourly", "@daily", "@weekly", "@monthly", "0 0 30 2 *", "0 0 29 2 *", "5 4 * 6 *",
	}).Draw(t, "schedule")
}

// TestLatest compares the last time of a schedule with going through all of them.
func TestLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times, err := Parse(drawSchedule(t), rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(1_600_000_000, 1_800_000_000).Draw(t, "after"), 0)
		span := rapid.SampledFrom([]int{1, 100, 2000, 100_000}).Draw(t, "span")
		now := after.Add(time.Duration(rapid.IntRange(0, span).Draw(t, "minutes")) * time.Minute)
		var want time.Time
		for at := times.Next(after); !at.IsZero() && !at.After(now); at = times.Next(at) {
			want = at
		}
		if got := Latest(times, after, now); !got.Equal(want) {
			t.Fatalf("after %v up to %v: %v, want %v", after, now, got, want)
		}
	})
}

// A time that a change of clocks leaves out has the offset of before, and one that it brings twice comes twice.
func TestChangeOfClocks(t *testing.T) {
	for _, test := range []struct{ zone, schedule, after, want string }{
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T02:00:00Z", "2026-03-29T01:30:00Z"}, // 03:30
		{"Europe/Berlin", "30 2 * * *", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		{"Europe/Berlin", "30 2 * * 0", "2026-03-22T01:30:00Z", "2026-03-29T01:30:00Z"}, // a weekly one
		{"Europe/Berlin", "30 2 * * 0", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"}, // the clocks are set already
		{"Europe/Berlin", "30 2 29 3 *", "2026-01-01T00:00:00Z", "2026-03-29T01:30:00Z"},
		{"Europe/Berlin", "0 2 * * 0", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "0 3 * * 0", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"}, // as before
		{"Europe/Berlin", "*/30 2,3 * * *", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, // again
		{"America/New_York", "30 2 * * 0", "2026-03-07T12:00:00Z", "2026-03-08T07:30:00Z"},
		{"America/New_York", "0 3 * * 0", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{"Australia/Lord_Howe", "15 2 * * 0", "2026-10-03T00:00:00Z", "2026-10-03T15:45:00Z"}, // half an hour
		{"Africa/Cairo", "0 0 * * 5", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},         // a day without midnight
		{"Africa/Cairo", "30 0 * * 5", "2026-04-23T12:00:00Z", "2026-04-23T22:30:00Z"},
		{"Asia/Kolkata", "30 2 * * 0", "2026-03-28T12:00:00Z", "2026-03-28T21:00:00Z"},   // no change
		{"Pacific/Apia", "0 12 30 12 *", "2011-12-01T00:00:00Z", "2011-12-30T22:00:00Z"}, // a day that there was not
		{"UTC", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z"},
		{"Europe/Berlin", "0 0 30 2 *", "2026-03-28T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		times, err := Parse(test.schedule, test.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.RFC3339, test.after)
		if err != nil {
			t.Fatal(err)
		}
		if next := times.Next(from).UTC().Format(time.RFC3339); next != test.want {
			t.Errorf("%q in %s after %s: %s, not %s", test.schedule, test.zone, test.after, next, test.want)
		}
	}
}

// moments returns at which moments a clock shows a local time, given as if it were UTC; none: at which it would.
func moments(local time.Time, zone *time.Location) (all []time.Time) {
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before, after := offset(local.Add(-36*time.Hour)), offset(local.Add(36*time.Hour))
	for _, o := range []time.Duration{before, after} {
		if at := local.Add(-o); offset(at) == o && !slices.ContainsFunc(all, at.Equal) {
			all = append(all, at)
		}
	}
	if all == nil {
		all = append(all, local.Add(-before))
	}
	return all
}

// TestNextAgainstClock compares what comes next with going through all that a clock shows.
func TestNextAgainstClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata", "America/St_Johns"}).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		schedule := rapid.SampledFrom([]string{"30 2 * * *", "0 0 * * *", "15 2 * * 0", "*/20 * * * *", "15 */2 * * *", "45 1-3 * * 5,6,0"}).Draw(t, "schedule")
		times, err := Parse(schedule, name)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := Parse(schedule, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(1_767_225_600, 1_830_297_600).Draw(t, "after"), 0).UTC()
		if _, change := after.In(zone).ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t, "near a change") {
			after = change.Add(time.Duration(rapid.IntRange(-200, 200).Draw(t, "minutes")) * time.Minute).UTC()
		}
		var want time.Time
		for local := shown.Next(after.Add(-48 * time.Hour)); local.Before(after.Add(10 * 24 * time.Hour)); local = shown.Next(local) {
			for _, at := range moments(local, zone) {
				if at.After(after) && (want.IsZero() || at.Before(want)) {
					want = at
				}
			}
		}
		if got := times.Next(after); !got.Equal(want) {
			t.Fatalf("%q in %s after %v: %v, not %v", schedule, name, after, got, want.In(zone))
		}
	})
}
