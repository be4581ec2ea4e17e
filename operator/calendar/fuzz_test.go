package calendar

import (
	"testing"
	"time"
)

// FuzzSchedule: whatever a resource has for a schedule is refused, or has times in order and in
// its time zone.
func FuzzSchedule(f *testing.F) {
	for _, text := range []string{"0 3 * * *", "@daily", "@every 1h", "*/5 1-3,7 1 JAN MON", "TZ=UTC 0 3 * * *", "TZ=UTC", "CRON_TZ=", "TZ= ", "0 0 30 2 *", "60 * * * *"} {
		f.Add(text, "Europe/Berlin")
	}
	f.Add("0 3 * * *", "Local")
	f.Add("0 3 * * *", "../../etc/passwd")
	f.Fuzz(func(t *testing.T, text, zone string) {
		schedule, err := Parse(text, zone)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
		for range 3 {
			next := schedule.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || next.Sub(at) > 6*366*24*time.Hour {
				t.Fatalf("%q in %q: %v is after %v", text, zone, next, at)
			}
			at = next
		}
	})
}
