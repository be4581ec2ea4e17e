package calendar

import (
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

// A time that a change of clocks leaves out does not come, and one that it brings twice comes twice.
func TestChangeOfClocks(t *testing.T) {
	times, err := Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"2026-03-28T02:00:00Z": "2026-03-30T00:30:00Z", // not on the 29th
		"2026-10-24T12:00:00Z": "2026-10-25T00:30:00Z",
		"2026-10-25T00:30:00Z": "2026-10-25T01:30:00Z", // again
	} {
		from, err := time.Parse(time.RFC3339, after)
		if err != nil {
			t.Fatal(err)
		}
		if next := times.Next(from).UTC().Format(time.RFC3339); next != want {
			t.Errorf("after %s: %s", after, next)
		}
	}
}
