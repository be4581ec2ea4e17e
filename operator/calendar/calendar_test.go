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
