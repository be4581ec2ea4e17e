package processor

import (
	"sync/atomic"
	"time"
)

// request is shared by the Works of the goroutines of one request.
type request struct {
	owner string
	began time.Time
	used  atomic.Int64 // nanoseconds of work, of all goroutines
	heavy atomic.Bool  // it needs a slot whatever it has used
	// exempt is until when it needs none, in nanoseconds after the pool began: it has waited in vain.
	exempt atomic.Int64
}

// holding is what a Work has of its Pool.
type holding int

const (
	nothing holding = iota
	slot
	reserve
)

// Work is the part of one goroutine in a request, and may be used by that goroutine only. All
// methods of a nil Work do nothing.
type Work struct {
	pool    *Pool
	request *request
	done    <-chan struct{} // of the context, whose end ends the wait for a slot
	held    holding         // the slot that it has
	behind  bool            // its thread lets others that wake go first; valid if held
	running bool            // its time counts as work, from since on
	since   time.Time       // valid if running
	began   time.Time       // when the slot was taken; valid if held
	woken   time.Time       // when wakePoller did something, or the request began
	turn    Turn            // while held
}

// Owner returns whose request it is; "": not known.
func (w *Work) Owner() string {
	if w == nil {
		return ""
	}
	return w.request.owner
}

// Heavy waits for a slot, whatever the request has used of its allowance. It is called before work
// that may take long without a call of Pace.
func (w *Work) Heavy() {
	if w == nil {
		return
	}
	w.request.heavy.Store(true)
	w.woken = time.Time{} // it may be long until the next call of Pace
	w.Pace()
}

// Pace is called during work, about once a millisecond, with no lock held. It may wait for a slot.
// It returns without one if the request is within its allowance, if the context has ended, which
// the caller has to check anyway, or after it has waited for waitMax.
func (w *Work) Pace() {
	if w == nil {
		return
	}
	now := time.Now()
	used := w.request.used.Load()
	if w.running {
		used = w.request.used.Add(int64(now.Sub(w.since)))
	}
	w.running, w.since = true, now
	w.wakePoller(now)
	switch {
	case w.held != nothing && w.mayKeep(now):
		if w.turn.yield(now) {
			w.since = time.Now()
		}
		return
	case w.held != nothing:
		w.giveUp()
	case used < int64(allowance) && !w.request.heavy.Load():
		return
	case int64(now.Sub(w.pool.began)) < w.request.exempt.Load():
		return
	}
	if w.held = w.pool.acquire(w.request, w.done); w.held != nothing {
		w.began = time.Now()
		if w.behind = w.pool.smallLately(); w.behind {
			stepBehind()
		}
	}
	w.resume()
}

// pollerKept is how long after the begin of a request, and after wakePoller, a call of it does nothing.
const pollerKept = 500 * time.Microsecond

// wakePoller makes sure that a thread waits for the network, if a P is free. A thread of Go's scheduler that waits for it runs
// the goroutine of a lone connection that has become readable itself, and starts no other thread in its place. While that
// goroutine computes, nobody notices requests on other connections, until 10 ms later the runtime's monitor looks. A new
// goroutine makes the scheduler start a thread, which then waits for the network.
func (w *Work) wakePoller(now time.Time) {
	if now.Sub(w.woken) >= pollerKept {
		w.woken = now
		w.pool.wakes.Add(1)
		go func() {}()
	}
}

// mayKeep reports whether a slot needs not to be given up now. It is kept for a slice, and longer while there is neither small
// work, which has to be told of heavy work, nor somebody who waits. The reserve is kept for a slice at most, as another owner
// may need it, and its holder may have become heavy.
func (w *Work) mayKeep(now time.Time) bool {
	sliceLeft := now.Sub(w.began) < slice
	if w.held == reserve {
		return sliceLeft
	}
	return !w.pool.crowded() && (sliceLeft || w.pool.waiters.Load() == 0 && !w.pool.smallLately())
}

// Idle is called before a wait. It releases the slot, and reports whether there was one. The time
// until the next Pace does not count as work.
func (w *Work) Idle() (held bool) {
	if w == nil {
		return false
	}
	if w.running {
		w.request.used.Add(int64(time.Since(w.since)))
		w.running = false
	}
	held = w.held != nothing
	w.giveUp()
	return held
}

// End ends the goroutine's work.
func (w *Work) End() { w.Idle() }

// EndAll ends a request. If it needed no slot, it counts as small work.
func (w *Work) EndAll() {
	if w == nil {
		return
	}
	w.Idle()
	if w.request.used.Load() < int64(allowance) && !w.request.heavy.Load() {
		w.pool.Small()
	}
}

// giveUp releases the slot, if there is one.
func (w *Work) giveUp() {
	if w.held != nothing {
		if w.behind {
			stepUp()
		}
		w.turn.Close()
		w.pool.release(w.request, w.held, time.Since(w.began))
		w.held = nothing
	}
}

// resume starts the clock of the work.
func (w *Work) resume() { w.running, w.since = true, time.Now() }

// copyBytesAtOnce is what Go's runtime copies without a stop.
const copyBytesAtOnce = 256 << 10

// Copy copies all of from, in pieces between which the runtime can stop the goroutine. It cannot within one, so that the
// copy of tens of MiB kept all goroutines waiting for one that the collector of garbage had to stop with them.
func Copy(to, from []byte) {
	for len(from) > 0 {
		n := copy(to, from[:min(len(from), copyBytesAtOnce)])
		to, from = to[n:], from[n:]
	}
}
