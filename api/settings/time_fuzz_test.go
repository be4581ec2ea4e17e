package settings

import (
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// FuzzTime: what is taken for a time is one that samples can have, or is so long ago that none
// can.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"now", "1h-ago", "106751d-ago", "-ago", "0", "-9999999999", "9223372036854775807", "2026-01-02", "2026-01-02T03:04", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+23:59"} {
		f.Add(text)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text)
		if err != nil {
			return
		}
		if ms := at(now); ms > scan.TimeMsMax || ms < now.Add(-1<<63+1).UnixMilli() && ms < scan.TimeMsMin {
			t.Fatalf("%q is %d", text, ms)
		}
	})
}
