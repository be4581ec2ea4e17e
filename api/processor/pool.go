package processor

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// allowance is how long a request may work without a slot.
	allowance = 2 * time.Millisecond
	// slice is how long a goroutine keeps a slot that others wait for.
	slice = 10 * time.Millisecond
	// spareKept is how long one processor is kept free after small work. After that heavy work may
	// have all of them.
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
	reserve bool          // there is one slot more, for owners that have had little lately
	still   time.Duration // standstill, but in tests
	began   time.Time
	small   atomic.Int64 // when small work came last, in nanoseconds after began
	waiters atomic.Int64 // of all queues; Pace reads it without the lock
	extra   extra

	mu struct {
		sync.Mutex
		inUse int
		spent accounts // of owners that have had slots lately
		heavy account  // how long slots were in use lately for what is heavy beyond doubt
		// reserveInUse is whether the reserve is in use: one slot more for an owner that has had little lately.
		reserveInUse bool
		moved        time.Time // when a slot changed hands last
		owners       []*queue  // those that wait, in the order of their turns
	}

	waited  atomic.Int64 // nanoseconds of all waits
	skipped atomic.Int64 // waits that lasted waitMax
	wakes   atomic.Int64 // of threads that wait for the network
}

// queue is the waiters of one owner.
type queue struct {
	owner   string
	waiting []*waiter
}

// lateness is how many times longer than in equal shares a request may take until newer ones, which have worked less, no longer
// go first.
const lateness = 2

// next returns the index of the waiter that is to come first. It is the one whose request has worked least, so that small queries do
// not wait for large ones, unless that would make another one late: where n wait, and share, a request is done n+1 times
// after what it works. By work alone, who needs a little more than others would wait for as long as these ask again and again.
func (q *queue) next() int {
	late := func(w *waiter) time.Time { return w.began.Add(lateness * time.Duration(len(q.waiting)+1) * w.used) }
	first := 0
	for i, w := range q.waiting {
		if late(w).Before(late(q.waiting[first])) {
			first = i
		}
	}
	return first
}

// waiter waits for a slot.
type waiter struct {
	began time.Time     // its request
	used  time.Duration // work of its request so far
	turn  chan struct{} // closed when it has a slot
	kind  holding       // which; valid then
}

// NewOfProcess returns the Pool of the process: its slots are all Ps but one, and it has more Ps while heavy work and small
// work meet, unless the environment sets their number or a control group has a quota below the machine's processors.
func NewOfProcess() *Pool {
	p := New(max(1, runtime.GOMAXPROCS(0)-1))
	p.reserve = true
	if mayRaise(quota(os.DirFS("/"))) {
		least := min(runtime.GOMAXPROCS(0), spared)
		p.extra.raise, p.extra.lower = raiseProcessors, func() { lowerProcessors(least) }
	}
	return p
}

// New returns a Pool with a number of slots.
func New(slots int) *Pool {
	p := &Pool{slots: slots, still: standstill, began: time.Now()}
	p.extra.began = p.began
	p.small.Store(-int64(spareKept))
	return p
}

// Small notes small work, such as a write: for a while the spare processor is not lent to heavy
// work.
func (p *Pool) Small() {
	if p != nil {
		p.small.Store(int64(time.Since(p.began)))
	}
}

// free returns how many slots there are now, in use or not: one more while there is no small work.
func (p *Pool) free() int {
	if !p.smallLately() {
		return p.slots + 1
	}
	return p.slots
}

// smallLately reports whether there has been small work lately.
func (p *Pool) smallLately() bool {
	return int64(time.Since(p.began))-p.small.Load() < int64(spareKept)
}

type workKey struct{}

// Begin begins a request of an owner, such as a user or an address, and returns a context with the
// Work of the calling goroutine. Owners that wait for slots get them in turn.
func (p *Pool) Begin(ctx context.Context, owner string) (context.Context, *Work) {
	if p == nil {
		return ctx, nil
	}
	return with(ctx, &Work{pool: p, request: &request{owner: owner, began: time.Now()}})
}

// Of returns the Work in a context. It is nil, which does nothing, if heavy work is not bounded.
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

// with adds w to a context, and starts its clock.
func with(ctx context.Context, w *Work) (context.Context, *Work) {
	w.resume()
	w.woken = w.since
	ctx = context.WithValue(ctx, workKey{}, w)
	w.done = ctx.Done()
	return ctx, w
}

// acquire waits for a slot, and returns which it got before done was closed and within waitMax.
func (p *Pool) acquire(r *request, done <-chan struct{}) holding {
	p.mu.Lock()
	kind := nothing
	if p.mu.inUse < p.free() {
		kind = slot
	} else if p.mayReserveLocked(r.owner) {
		kind = reserve
	}
	if kind != nothing {
		p.takeLocked(kind)
		p.mu.Unlock()
		return kind
	}
	w := &waiter{began: r.began, used: time.Duration(r.used.Load()), turn: make(chan struct{})}
	p.enqueueLocked(r.owner, w)
	p.mu.Unlock()
	begin := time.Now()
	defer func() { p.waited.Add(int64(time.Since(begin))) }()
	late := time.NewTimer(waitMax)
	defer late.Stop()
	look := time.NewTicker(p.still)
	defer look.Stop()
	for {
		select {
		case <-w.turn:
			return w.kind
		case <-look.C:
			p.lendIfStill()
			continue
		case <-late.C:
			p.skipped.Add(1)
			r.exempt.Store(int64(time.Since(p.began) + waitMax))
		case <-done:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.removeLocked(r.owner, w)
		return w.kind // it may have got a slot meanwhile, and has to keep it
	}
}

// mayReserveLocked reports whether an owner may have the reserve.
func (p *Pool) mayReserveLocked(owner string) bool {
	return p.reserve && !p.mu.reserveInUse && p.mu.spent.of(owner, time.Since(p.began)) < reserveMax
}

// takeLocked counts a slot that somebody gets. The reserve does not count as one that changes hands: its holders pass by
// one that cannot be paced.
func (p *Pool) takeLocked(kind holding) {
	if kind == reserve {
		p.mu.reserveInUse = true
	} else {
		p.mu.inUse++
		p.mu.moved = time.Now()
	}
}

// lendIfStill grants one waiter a slot beyond those that there are, if none has changed hands for
// long. It goes with who has it: a slot that is given up is not given on while there are too many.
func (p *Pool) lendIfStill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.mu.moved) < p.still {
		return
	}
	if w := p.nextLocked(); w != nil {
		p.grantToLocked(w, slot)
	}
}

func (p *Pool) grantToLocked(w *waiter, kind holding) {
	p.takeLocked(kind)
	w.kind = kind
	close(w.turn)
}

// release returns a slot that a request has had for a time. A waiter gets it.
func (p *Pool) release(r *request, kind holding, held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == reserve {
		p.mu.reserveInUse = false
	} else {
		p.mu.inUse--
		p.mu.moved = time.Now()
	}
	now := time.Since(p.began)
	p.mu.spent.add(r.owner, held, now)
	if r.heavy.Load() || time.Duration(r.used.Load()) >= heavyUsed {
		p.mu.heavy = p.mu.heavy.plus(held, now)
		if p.mu.heavy.spent >= heavyMeets && p.smallLately() {
			p.extra.meet()
		}
	}
	p.grantLocked()
	p.grantReserveLocked()
}

// crowded reports whether more slots are in use than there are, as small work has come since they
// were taken: then a holder has to give its slot up. If slots are free, waiters get them.
func (p *Pool) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grantLocked()
	return p.mu.inUse > p.free()
}

// grantLocked hands free slots to waiters.
func (p *Pool) grantLocked() {
	for p.mu.inUse < p.free() {
		w := p.nextLocked()
		if w == nil {
			return
		}
		p.grantToLocked(w, slot)
	}
}

// grantReserveLocked hands the reserve to the next owner that may have it.
func (p *Pool) grantReserveLocked() {
	for at, q := range p.mu.owners {
		if p.mayReserveLocked(q.owner) {
			p.grantToLocked(p.nextOfLocked(at), reserve)
			return
		}
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

// nextLocked removes and returns the next waiter, or nil. Owners take turns.
func (p *Pool) nextLocked() *waiter {
	if len(p.mu.owners) == 0 {
		return nil
	}
	return p.nextOfLocked(0)
}

// nextOfLocked removes and returns the next waiter of the owner at an index.
func (p *Pool) nextOfLocked(owner int) *waiter {
	q := p.mu.owners[owner]
	at := q.next()
	w := q.waiting[at]
	if p.dropLocked(owner, at); len(q.waiting) > 0 {
		p.mu.owners = append(append(p.mu.owners[:owner], p.mu.owners[owner+1:]...), q)
	}
	return w
}

// removeLocked removes a waiter from its queue, if it is there.
func (p *Pool) removeLocked(owner string, w *waiter) {
	for o, q := range p.mu.owners {
		for at := range q.waiting {
			if q.owner == owner && q.waiting[at] == w {
				p.dropLocked(o, at)
				return
			}
		}
	}
}

// dropLocked removes a waiter by the indexes of its owner and itself, and an owner without waiters.
func (p *Pool) dropLocked(owner, at int) {
	q := p.mu.owners[owner]
	q.waiting = append(q.waiting[:at], q.waiting[at+1:]...)
	p.waiters.Add(-1)
	if len(q.waiting) == 0 {
		p.mu.owners = append(p.mu.owners[:owner], p.mu.owners[owner+1:]...)
	}
}

// Stats are figures of a Pool, for metrics.
type Stats struct {
	Slots   int
	InUse   int
	Waiting int
	Waited  time.Duration // sum of all waits
	Skipped int64         // waits that lasted too long, after which the work went on without a slot
	Raised  bool          // there are more Ps, as heavy work and small work meet
	Raises  int64         // how often that has begun
	Wakes   int64         // threads that were started to wait for the network beside heavy work
}

// Stats returns the present figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	inUse := p.mu.inUse
	if p.mu.reserveInUse {
		inUse++
	}
	p.mu.Unlock()
	return Stats{
		Slots: p.slots, InUse: inUse, Waiting: int(p.waiters.Load()), Waited: time.Duration(p.waited.Load()), Skipped: p.skipped.Load(),
		Raised: p.extra.raised.Load(), Raises: p.extra.raises.Load(),
		Wakes: p.wakes.Load(),
	}
}
