package processor

import (
	"sync/atomic"
	"time"
)

// request is what the goroutines of one request share.
type request struct {
	owner string
	used  atomic.Int64 // nanoseconds of work, of all goroutines
	heavy atomic.Bool  // it needs a slot whatever it has used
	// exempt is until when it needs none, in nanoseconds after the pool began: it has waited in vain.
	exempt atomic.Int64
}

// Work is what one goroutine does of a request. Only that goroutine uses it. All methods of a
// nil Work do nothing.
type Work struct {
	pool    *Pool
	request *request
	done    <-chan struct{} // of the context: who is canceled does not wait
	held    bool
	running bool      // since tells when it began or was counted last
	since   time.Time // valid while running
	began   time.Time // when the slot was taken
}

// Heavy says that what follows may take long without a Pace, and waits for a slot.
func (w *Work) Heavy() {
	if w == nil {
		return
	}
	w.request.heavy.Store(true)
	w.Pace()
}

// Pace is called during work, once in a millisecond or so, with no lock held. It may wait for a
// slot: it comes back without one only when the context has ended, which the caller looks at as
// ever, or when it has waited very long.
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
	switch {
	case w.held && !w.pool.crowded() && (now.Sub(w.began) < slice || w.pool.waiters.Load() == 0):
		return
	case w.held:
		w.giveUp()
	case used < int64(allowance) && !w.request.heavy.Load():
		return
	case int64(now.Sub(w.pool.began)) < w.request.exempt.Load():
		return
	}
	if w.held = w.pool.acquire(w.request, w.done); w.held {
		w.began = time.Now()
	}
	w.resume()
}

// Idle gives up the slot, and reports whether there was one. Who calls it waits for something
// now; what time passes until the next Pace is not taken for work.
func (w *Work) Idle() (held bool) {
	if w == nil {
		return false
	}
	if w.running {
		w.request.used.Add(int64(time.Since(w.since)))
		w.running = false
	}
	held = w.held
	w.giveUp()
	return held
}

// End ends the goroutine's work.
func (w *Work) End() { w.Idle() }

// EndAll ends a request. One that needed no slot was small.
func (w *Work) EndAll() {
	if w == nil {
		return
	}
	w.Idle()
	if w.request.used.Load() < int64(allowance) && !w.request.heavy.Load() {
		w.pool.Small()
	}
}

func (w *Work) giveUp() {
	if w.held {
		w.held = false
		w.pool.release()
	}
}

func (w *Work) resume() { w.running, w.since = true, time.Now() }
