// Package limitedlog bounds log lines that clients cause: one per interval, which tells how many were left out.
package limitedlog

import (
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time between two lines of a Log.
const Interval = 10 * time.Second

// Log writes at most one line per Interval. It is safe for concurrent use. Logger and Clock are required.
type Log struct {
	Logger *slog.Logger
	Clock  func() time.Time

	mu struct {
		sync.Mutex
		told    time.Time // of the last line; zero: none yet
		leftOut int
	}
}

// Warn writes the line, with how many were left out before it, or counts it as left out.
func (l *Log) Warn(message string, args ...any) {
	l.mu.Lock()
	now := l.Clock() // under the lock, as one who read it earlier and came later would look like a clock that went back
	// A clock that went back writes a line: it must not be silent until it is where it was.
	if since := now.Sub(l.mu.told); !l.mu.told.IsZero() && since >= 0 && since < Interval {
		l.mu.leftOut++
		l.mu.Unlock()
		return
	}
	leftOut := l.mu.leftOut
	l.mu.told, l.mu.leftOut = now, 0
	l.mu.Unlock()
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	l.Logger.Warn(message, args...)
}
