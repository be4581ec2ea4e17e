package processor

import (
	"runtime"
	"time"
)

const (
	// turnLeast is how long a goroutine computes between two yields: what small work waits at most while nothing else is at work.
	// A yield that finds nobody takes some microseconds (BenchmarkTurnYield).
	turnLeast = 250 * time.Microsecond
	// turnMost bounds turns, which are as long as the last wait was: half of the time is for who yields, so that it ends. While somebody
	// is always ready, the runtime looks at the network every 10 ms, and so long is the wait; it stops who does not yield after as long, too.
	turnMost = 10 * time.Millisecond
)

// Turn is the time that a goroutine has the processor while it computes for long: a flush, a merge, a large query. Where Go has one
// P, its scheduler looks at the network only when nothing is ready to run, or every 10 ms; runtime.Gosched does not help, as who
// calls it is ready. Yield waits until all that is ready has run, and what the network has is ready, too.
//
// A Turn is used by one goroutine at a time. The zero value is ready for use.
type Turn struct {
	began  time.Time // zero: not yet
	length time.Duration
	poll   *pollerPass // nil: not yet
}

// Yield ends the turn if it has lasted for long enough, and returns when the next one begins. Where there are several Ps, and so
// one that is free for others, it returns at once. It is called with no lock held that small work may need.
func (t *Turn) Yield() { t.yield(time.Now()) }

// yield is Yield at a time, and reports whether it has waited.
func (t *Turn) yield(now time.Time) (waited bool) {
	if t.began.IsZero() {
		t.began, t.length = now, turnLeast
	}
	if now.Sub(t.began) < t.length {
		return false
	}
	t.began = now
	if runtime.GOMAXPROCS(0) > 1 {
		return false
	}
	if t.poll == nil {
		t.poll = newPollerPass()
	}
	t.poll.wait()
	t.began = time.Now()
	t.length = min(max(turnLeast, t.began.Sub(now)), turnMost)
	return true
}

// Close releases what Yield has needed. The Turn may be used again.
func (t *Turn) Close() {
	if t.poll != nil {
		t.poll.close()
		t.poll = nil
	}
}
