package deadline

import (
	"sync/atomic"
	"time"
)

// successFactor is how many times as long as a success took the next operation may take:
// on a busy machine one scheduling delay more or less is the rule.
const successFactor = 4

// Adaptive is the time allowed for one kind of operation. It doubles after an operation
// that ran out of it, up to a maximum, and approaches successFactor times the duration of
// operations that succeed, down to a minimum. It reads no clock. The zero value is not
// usable. It is safe for concurrent use.
type Adaptive struct {
	min, max time.Duration
	allowed  atomic.Int64 // nanoseconds
}

// New returns an Adaptive that begins with min and never leaves min to max. A max below
// min counts as min.
func New(min, max time.Duration) *Adaptive {
	a := new(Adaptive)
	a.init(min, max)
	return a
}

func (a *Adaptive) init(min, max time.Duration) {
	if max < min {
		max = min
	}
	a.min, a.max = min, max
	a.allowed.Store(int64(min))
}

// Allowed returns how long the next operation may take.
func (a *Adaptive) Allowed() time.Duration { return time.Duration(a.allowed.Load()) }

// Expired records an operation that was given up after the time that it had been allowed.
// Many operations that were allowed the same time and ran out of it together double it
// once.
func (a *Adaptive) Expired(allowed time.Duration) {
	a.update(func(now time.Duration) time.Duration { return max(now, 2*allowed) })
}

// Took records the duration of an operation that succeeded. A longer time is allowed at
// once; a shorter one is approached by half of the difference each time, so that one
// quick success among slow ones costs no attempts.
func (a *Adaptive) Took(d time.Duration) {
	target := min(successFactor*min(d, a.max), a.max)
	a.update(func(now time.Duration) time.Duration {
		if target >= now {
			return target
		}
		return now - (now-target+1)/2
	})
}

// Reset forgets what is known, as of a peer that has not been asked for long.
func (a *Adaptive) Reset() { a.allowed.Store(int64(a.min)) }

func (a *Adaptive) update(next func(now time.Duration) time.Duration) {
	for {
		now := a.allowed.Load()
		to := min(max(next(time.Duration(now)), a.min), a.max)
		if int64(to) == now || a.allowed.CompareAndSwap(now, int64(to)) {
			return
		}
	}
}
