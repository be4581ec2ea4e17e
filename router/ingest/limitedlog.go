package ingest

import (
	"log/slog"
	"sync"
	"time"
)

// limitedLog writes at most one line per interval and says how many it left out.
type limitedLog struct {
	log   *slog.Logger
	clock func() time.Time

	mu struct {
		sync.Mutex
		next    time.Time
		leftOut int
	}
}

const limitedLogInterval = 10 * time.Second

func (l *limitedLog) warn(message string, args ...any) {
	now := l.clock()
	l.mu.Lock()
	if now.Before(l.mu.next) {
		l.mu.leftOut++
		l.mu.Unlock()
		return
	}
	leftOut := l.mu.leftOut
	l.mu.next, l.mu.leftOut = now.Add(limitedLogInterval), 0
	l.mu.Unlock()
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	l.log.Warn(message, args...)
}
