package years

import (
	"sync"
	"time"
)

// Clock is a virtual clock, with the tickers that wait for it. It is never set, it only goes fast.
type Clock struct {
	mu      sync.Mutex
	nowMs   int64
	tickers map[*ticker]bool
}

// ticker is what one loop of a node waits for.
type ticker struct {
	ticks   chan time.Time
	stopped chan struct{}
}

// NewClock returns a clock that shows a time.
func NewClock(nowMs int64) *Clock { return &Clock{nowMs: nowMs, tickers: map[*ticker]bool{}} }

// NowMs returns the time in ms since 1970.
func (c *Clock) NowMs() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowMs
}

// Now returns the time, without a reading of the monotonic clock.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.NowMs()) }

// Ticker is node.Options.Ticker. A loop gets a tick at each Tick, whatever its interval is: a day
// has fewer of them than a real one, as if its machine had been busy.
func (c *Clock) Ticker(time.Duration) (ticks <-chan time.Time, stop func()) {
	t := &ticker{ticks: make(chan time.Time), stopped: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickers[t] = true
	return t.ticks, sync.OnceFunc(func() {
		close(t.stopped)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.tickers, t)
	})
}

// Advance moves the clock, and wakes nobody.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nowMs += d.Milliseconds()
}

// Tick wakes every loop that waits, and returns when each has begun with what is due by now: so all
// that was due at the Tick before is done.
func (c *Clock) Tick() {
	c.mu.Lock()
	now := time.UnixMilli(c.nowMs)
	tickers := make([]*ticker, 0, len(c.tickers))
	for t := range c.tickers {
		tickers = append(tickers, t)
	}
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, t := range tickers {
		all.Go(func() {
			select {
			case t.ticks <- now:
			case <-t.stopped:
			}
		})
	}
	all.Wait()
}

// AwaitDue returns when all that is due now is done.
func (c *Clock) AwaitDue() {
	c.Tick()
	c.Tick()
}
