package settings

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	for text, want := range map[string]int64{
		"now": 1_700_000_000_123, "1h-ago": 1_699_996_400_123, "2d-ago": 1_699_827_200_123, "1700000000": 1_700_000_000_000, "1700000000001": 1_700_000_000_001,
		"0": 0, "-5": -5000, "2023-11-14": 1_699_920_000_000, "2023-11-14T22:13:20Z": 1_700_000_000_000, "2023-11-14T22:13:20.5+01:00": 1_699_996_400_500, "2023-11-14T22:13": 1_699_999_980_000,
	} {
		var m Time
		if err := m.Set(text); err != nil || m.UnixMilli(now, 1) != want || m.String() != text {
			t.Errorf("%s: %d, %v; want %d", text, m.UnixMilli(now, 1), err, want)
		}
	}
	for _, text := range []string{"", "soon", "1x-ago", "-ago", "99999999999999999999", "2023-13-01"} {
		var m Time
		if err := m.Set(text); err == nil || m.UnixMilli(now, 1) != 1 {
			t.Errorf("%q is taken", text)
		}
	}
}
