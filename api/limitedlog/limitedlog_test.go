package limitedlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLimitedLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	l := &Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Clock: func() time.Time { return now }}
	lines := func(want int) {
		t.Helper()
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("%d lines, want %d: %s", got, want, out.String())
		}
	}
	for range 5 {
		l.Warn("w")
	}
	lines(1)
	now = now.Add(Interval)
	l.Warn("w")
	if lines(2); !strings.Contains(out.String(), "left_out=4") {
		t.Errorf("%s", out.String())
	}
	now = now.Add(-time.Hour)
	l.Warn("w")
	lines(3)
}
