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

// TestTogether: of two that warn at once one writes, whatever their order between the clock and the lock.
func TestTogether(t *testing.T) {
	var out bytes.Buffer
	l := &Log{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	now, overtaken := time.Unix(1_700_000_000, 0), false
	l.Clock = func() time.Time {
		mine := now
		if now = now.Add(time.Microsecond); !overtaken && l.mu.TryLock() { // nothing keeps another from coming first
			l.mu.Unlock()
			overtaken = true
			l.Warn("second")
		}
		return mine
	}
	if l.Warn("first"); strings.Count(out.String(), "\n") != 1 {
		t.Errorf("more than one line:\n%s", out.String())
	}
}
