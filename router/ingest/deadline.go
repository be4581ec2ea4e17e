package ingest

import (
	"context"
	"sync"
	"time"
)

// deadline is a context for one write at a time that costs no allocation: the
// channel and the timer are used again as long as the timer has not fired.
type deadline struct {
	parent context.Context
	timer  *time.Timer
	done   chan struct{}
	at     time.Time
	stop   func() bool // of the parent's cancellation

	mu  sync.Mutex
	err error
}

func newDeadline(parent context.Context) *deadline {
	d := &deadline{parent: parent, done: make(chan struct{})}
	d.stop = context.AfterFunc(parent, func() { d.end(context.Cause(parent)) })
	return d
}

// start sets the end of the next write.
func (d *deadline) start(timeout time.Duration) {
	d.at = time.Now().Add(timeout)
	if d.timer == nil {
		d.timer = time.AfterFunc(timeout, func() { d.end(context.DeadlineExceeded) })
		return
	}
	d.timer.Reset(timeout)
}

// rest ends the wait for a write, and reports whether the deadline may start again.
func (d *deadline) rest() bool { return d.timer.Stop() && d.parent.Err() == nil }

// release lets go of the parent.
func (d *deadline) release() { d.stop() }

func (d *deadline) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
		close(d.done)
	}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
func (d *deadline) Done() <-chan struct{}       { return d.done }
func (d *deadline) Value(key any) any           { return d.parent.Value(key) }
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// sleep waits until ctx ends at most.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
