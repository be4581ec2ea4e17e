package node

import (
	"sync"
	"time"
)

// flushedSegments is what flushes have made that compaction has not looked at.
type flushedSegments struct {
	mu      sync.Mutex
	flushes int64
	last    time.Time // of the last flush
}

func (f *flushedSegments) add(flushes int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushes, f.last = f.flushes+flushes, now
}

// compactionDue reports whether to compact now; last is when that was done last.
func (f *flushedSegments) compactionDue(now, last time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := now.Sub(f.last)
	due := f.flushes >= compactionFlushes ||
		f.flushes > 0 && (idle >= compactionIdle || idle < 0) || // the clock may go back
		now.Sub(last) >= compactionInterval
	if due {
		f.flushes = 0
	}
	return due
}
