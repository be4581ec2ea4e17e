package processor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// allowance is the work that a request may do without a slot.
	allowance = 2 * time.Millisecond
	// slice is how long a goroutine keeps a slot that others wait for.
	slice = 10 * time.Millisecond
	// spareKept is how long one processor is kept free after small work: while there is none, heavy
	// work has all of them.
	spareKept = 200 * time.Millisecond
	// standstill is how long slots may be held without changing hands while others wait. Then one more is
	// lent, as whoever holds them cannot be paced: a parser, or an evaluation by Prometheus' engine.
	standstill = 100 * time.Millisecond
	// waitMax bounds the wait for a slot, and is how long a request goes on without slots after one
	// that was in vain: it paces each millisecond or so, and would wait again each time.
	waitMax = 10 * time.Second
)

// Pool bounds the goroutines that do heavy work at once. It is safe for concurrent use. A nil
// Pool bounds nothing.
type Pool struct {
	slots   int
	still   time.Duration // standstill, but in tests
	began   time.Time
	small   atomic.Int64 // when small work came last, in nanoseconds after began
	waiters atomic.Int64 // len of all queues, for those who only want to know whether there are any

	mu struct {
		sync.Mutex
		inUse  int
		moved  time.Time // when a slot changed hands last
		owners []*queue  // those that wait, in the order of their turns
	}

	waited  atomic.Int64 // nanoseconds
	skipped atomic.Int64 // waits given up
}

// queue is the waiters of one owner.
type queue struct {
	owner   string
	waiting []*waiter
}

// waiter waits for a slot.
type waiter struct {
	used time.Duration // by its request
	turn chan struct{} // closed once it has a slot
}

// New returns a pool of so many slots.
func New(slots int) *Pool {
	p := &Pool{slots: slots, still: standstill, began: time.Now()}
	p.small.Store(-int64(spareKept))
	return p
}

// Small says that small work has come, such as a write: for a while all slots but those of the
// spare processor are there.
func (p *Pool) Small() {
	if p != nil {
		p.small.Store(int64(time.Since(p.began)))
	}
}

// free returns how many slots there are now: one more while there is no small work.
func (p *Pool) free() int {
	if int64(time.Since(p.began))-p.small.Load() >= int64(spareKept) {
		return p.slots + 1
	}
	return p.slots
}

// SlotsDefault returns the slots of a process: all of Go's processors but one.
func SlotsDefault() int { return max(1, runtime.GOMAXPROCS(0)-1) }

type workKey struct{}

// Begin begins a request of an owner, such as a user or an address: slots are shared out evenly
// among owners that wait. The context carries the Work of the calling goroutine.
func (p *Pool) Begin(ctx context.Context, owner string) (context.Context, *Work) {
	if p == nil {
		return ctx, nil
	}
	return with(ctx, &Work{pool: p, request: &request{owner: owner}})
}

// Of returns the Work of the goroutine that has this context; nil, which does nothing, where
// heavy work is not bounded.
func Of(ctx context.Context) *Work {
	w, _ := ctx.Value(workKey{}).(*Work)
	return w
}

// Fork returns a context for another goroutine of the same request.
func Fork(ctx context.Context) (context.Context, *Work) {
	w := Of(ctx)
	if w == nil {
		return ctx, nil
	}
	return with(ctx, &Work{pool: w.pool, request: w.request})
}

func with(ctx context.Context, w *Work) (context.Context, *Work) {
	w.resume()
	ctx = context.WithValue(ctx, workKey{}, w)
	w.done = ctx.Done()
	return ctx, w
}

// acquire takes a slot, and reports whether there was one before done.
func (p *Pool) acquire(r *request, done <-chan struct{}) bool {
	p.mu.Lock()
	if p.mu.inUse < p.free() {
		p.mu.inUse++
		p.mu.moved = time.Now()
		p.mu.Unlock()
		return true
	}
	w := &waiter{used: time.Duration(r.used.Load()), turn: make(chan struct{})}
	p.enqueueLocked(r.owner, w)
	p.mu.Unlock()
	begin := time.Now()
	defer func() { p.waited.Add(int64(time.Since(begin))) }()
	late := time.NewTimer(waitMax)
	defer late.Stop()
	look := time.NewTicker(p.still)
	defer look.Stop()
	for waiting := true; waiting; {
		select {
		case <-w.turn:
			return true
		case <-look.C:
			p.lendIfStill()
			continue
		case <-late.C:
			p.skipped.Add(1)
			r.exempt.Store(int64(time.Since(p.began) + waitMax))
		case <-done:
		}
		waiting = false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.removeLocked(r.owner, w) // its turn may have come meanwhile
}

// lendIfStill gives one waiter a slot beyond those that there are, if none has changed hands for
// long. It goes with who has it: a slot that is given up is not given on while there are too many.
func (p *Pool) lendIfStill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.mu.moved) < p.still {
		return
	}
	if w := p.nextLocked(); w != nil {
		p.grantToLocked(w)
	}
}

func (p *Pool) grantToLocked(w *waiter) {
	p.mu.inUse++
	p.mu.moved = time.Now()
	close(w.turn)
}

// release gives a slot up.
func (p *Pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.inUse--
	p.mu.moved = time.Now()
	p.grantLocked()
}

// crowded is asked by the holder of a slot: it reports whether there are more of them than there
// should be, since small work has come. Where there is room for more, waiters get it.
func (p *Pool) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grantLocked()
	return p.mu.inUse > p.free()
}

// grantLocked gives waiters the slots that are free.
func (p *Pool) grantLocked() {
	for p.mu.inUse < p.free() {
		w := p.nextLocked()
		if w == nil {
			return
		}
		p.grantToLocked(w)
	}
}

func (p *Pool) enqueueLocked(owner string, w *waiter) {
	p.waiters.Add(1)
	for _, q := range p.mu.owners {
		if q.owner == owner {
			q.waiting = append(q.waiting, w)
			return
		}
	}
	p.mu.owners = append(p.mu.owners, &queue{owner: owner, waiting: []*waiter{w}})
}

// nextLocked takes the waiter whose turn it is off its queue. Owners take turns; of one owner the
// request that has had least so far comes first, so that its small questions do not wait for
// its large ones.
func (p *Pool) nextLocked() *waiter {
	if len(p.mu.owners) == 0 {
		return nil
	}
	q := p.mu.owners[0]
	at := 0
	for i, w := range q.waiting {
		if w.used < q.waiting[at].used {
			at = i
		}
	}
	w := q.waiting[at]
	if p.dropLocked(0, at); len(q.waiting) > 0 {
		p.mu.owners = append(p.mu.owners[1:], q)
	}
	return w
}

// removeLocked takes a waiter off its queue, and reports whether it was there.
func (p *Pool) removeLocked(owner string, w *waiter) bool {
	for o, q := range p.mu.owners {
		for at := range q.waiting {
			if q.owner == owner && q.waiting[at] == w {
				p.dropLocked(o, at)
				return true
			}
		}
	}
	return false
}

// dropLocked takes one waiter of an owner off, and the owner's queue if it was the last.
func (p *Pool) dropLocked(owner, at int) {
	q := p.mu.owners[owner]
	q.waiting = append(q.waiting[:at], q.waiting[at+1:]...)
	p.waiters.Add(-1)
	if len(q.waiting) == 0 {
		p.mu.owners = append(p.mu.owners[:owner], p.mu.owners[owner+1:]...)
	}
}

// Stats is what a pool does now, and has done.
type Stats struct {
	Slots   int
	InUse   int
	Waiting int
	Waited  time.Duration // of all that have waited
	Skipped int64         // waits that were given up: the work went on without a slot
}

// Stats returns what the pool does.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	inUse := p.mu.inUse
	p.mu.Unlock()
	return Stats{Slots: p.slots, InUse: inUse, Waiting: int(p.waiters.Load()), Waited: time.Duration(p.waited.Load()), Skipped: p.skipped.Load()}
}
