package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Lease.Acquire, besides the end of its context.
var (
	// ErrFull: there was no room in time, or none would have come. The same again may pass.
	ErrFull = errors.New("too many bytes are held by requests; try again later")
	// ErrTooLarge: the request would hold more than the whole pool.
	ErrTooLarge = errors.New("the request needs more memory than all requests together may hold; send it in smaller parts")
)

// waitersMax bounds the requests that wait for a pool. The next one is refused at once.
const waitersMax = 1024

// Pool is a bound of bytes. It is safe for concurrent use.
type Pool struct {
	waitMax time.Duration

	mu sync.Mutex // guards the rest
	// shares are what is held, waiting who wants more, in order of arrival; stalled are the
	// shares of leases that wait for more.
	shares, stalled shares
	waiting         []*waiter
	refused         int64
}

// waiter is a request that waits.
type waiter struct {
	lease   *Lease
	bytes   int64
	spare   int64         // bytes that it leaves to others
	ended   chan struct{} // closed when it has its bytes, or is refused
	refused bool          // valid once ended is closed
}

// New returns a pool of so many bytes, for which requests wait waitMax at most.
func New(bytesMax int64, waitMax time.Duration) *Pool {
	return NewForTenants(bytesMax, waitMax, tenantMultiple)
}

// NewForTenants returns a pool of which one tenant may hold so many times what is left free: alone, multiple parts of
// multiple+1.
func NewForTenants(bytesMax int64, waitMax time.Duration, multiple int64) *Pool {
	return &Pool{shares: newShares(bytesMax, multiple), stalled: newShares(bytesMax, multiple), waitMax: waitMax}
}

// BytesMax returns the size of the pool.
func (p *Pool) BytesMax() int64 { return p.shares.bytesMax }

// Stats are the figures of a pool.
type Stats struct {
	Used    int64 // bytes
	Waiting int   // requests
	Refused int64 // requests that got no room, since the start
}

// Stats returns the state of the pool.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Used: p.shares.used, Waiting: len(p.waiting), Refused: p.refused}
}

// Lease is what one request holds of a pool. The goroutines of a request may share it. A
// nil Lease is of a pool without bounds.
type Lease struct {
	pool  *Pool
	owner Owner
	held  int64 // guarded by pool.mu
	waits int   // how many of its goroutines wait; the same
}

// Lease returns a lease that holds nothing.
func (p *Pool) Lease(o Owner) Lease { return Lease{pool: p, owner: o} }

// TryAcquire takes n bytes more, if there is room for them now.
func (l *Lease) TryAcquire(n int64) bool {
	if l == nil || n <= 0 {
		return true
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.pool.takeLocked(l, n, 0)
}

// Acquire takes n bytes more, and waits for them until ctx ends and for the pool's bound of
// time at most. Of requests that want more while they hold some, and wait for each other, one
// is refused at once. Errors: ErrFull, ErrTooLarge.
func (l *Lease) Acquire(ctx context.Context, n int64) error {
	return l.AcquireLeaving(ctx, n, 0, func() {})
}

// AcquireLeaving is Acquire for a request that leaves spare bytes of the pool to others, unless it is alone: for what they
// cannot wait for. It calls before where it has to wait.
func (l *Lease) AcquireLeaving(ctx context.Context, n, spare int64, before func()) error {
	if l == nil || n <= 0 {
		return nil
	}
	p := l.pool
	p.mu.Lock()
	if p.takeLocked(l, n, spare) {
		p.mu.Unlock()
		return nil
	}
	w, err := p.enqueueLocked(l, n, spare)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	before()
	timer := time.NewTimer(p.waitMax)
	defer timer.Stop()
	select {
	case <-w.ended:
		return w.result()
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.giveUp(w)
}

// Charge takes n bytes, if there is room for them now, whoever waits for some, and reports whether there was. Negative
// ones are released, as many as the lease holds.
func (l *Lease) Charge(n int64) bool {
	if l == nil || n == 0 {
		return true
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if n < 0 {
		l.pool.releaseLocked(l, min(-n, l.held))
		return true
	}
	if !l.pool.shares.allows(&l.owner, l.held, n) {
		return false
	}
	l.pool.chargeLocked(l, n)
	return true
}

// Release returns n bytes to the pool.
func (l *Lease) Release(n int64) {
	if l == nil || n <= 0 {
		return
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.releaseLocked(l, n)
}

// Close returns all that the lease holds. The lease can be used again.
func (l *Lease) Close() {
	if l == nil || l.pool == nil {
		return
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.held > 0 {
		l.pool.releaseLocked(l, l.held)
	}
}

// Held returns the bytes that the lease holds.
func (l *Lease) Held() int64 {
	if l == nil || l.pool == nil {
		return 0
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.held
}

// takeLocked takes n bytes for a lease unless they are refused or others of its address
// wait before it.
func (p *Pool) takeLocked(l *Lease, n, spare int64) bool {
	if !p.shares.allowsLeaving(&l.owner, l.held, n, spare) || p.awaitsLocked(&l.owner) {
		return false
	}
	p.chargeLocked(l, n)
	return true
}

// awaitsLocked reports whether a request of the owner waits.
func (p *Pool) awaitsLocked(o *Owner) bool {
	return slices.ContainsFunc(p.waiting, func(w *waiter) bool {
		return w.lease.owner.Address == o.Address && w.lease.owner.Tenant == o.Tenant
	})
}

func (p *Pool) enqueueLocked(l *Lease, n, spare int64) (*waiter, error) {
	switch {
	case l.held+n > p.shares.bytesMax:
		p.refused++
		return nil, ErrTooLarge
	case len(p.waiting) == waitersMax:
		p.refused++
		return nil, ErrFull
	}
	w := &waiter{lease: l, bytes: n, spare: spare, ended: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	if l.waits++; l.waits == 1 {
		p.stalled.add(&l.owner, l.held)
	}
	p.grantAllLocked() // it may pass others of its owner, as the one that holds most
	p.breakDeadlockLocked(&l.owner)
	return w, nil
}

// removeLocked takes the waiter at an index out of the queue.
func (p *Pool) removeLocked(at int) *waiter {
	w := p.waiting[at]
	p.waiting = slices.Delete(p.waiting, at, at+1)
	if w.lease.waits--; w.lease.waits == 0 {
		p.stalled.add(&w.lease.owner, -w.lease.held)
	}
	return w
}

// chargeLocked adds n bytes, which are negative when they are released, to what a lease holds.
func (p *Pool) chargeLocked(l *Lease, n int64) {
	l.held += n
	p.shares.add(&l.owner, n)
	if l.waits > 0 {
		p.stalled.add(&l.owner, n)
	}
}

// result returns how a wait that has ended did.
func (w *waiter) result() error {
	if w.refused {
		return ErrFull
	}
	return nil
}

// giveUp ends a wait, unless it has ended well in the meantime.
func (p *Pool) giveUp(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if at < 0 {
		return w.result()
	}
	p.removeLocked(at)
	p.refused++
	return ErrFull
}

func (p *Pool) releaseLocked(l *Lease, n int64) {
	if l.held < n {
		panic("BUG: budget: a lease gives back more than it holds")
	}
	p.chargeLocked(l, -n)
	p.grantAllLocked()
	p.breakDeadlockLocked(&l.owner)
}

func (p *Pool) grantAllLocked() {
	for len(p.waiting) > 0 && p.grantLocked() {
	}
}

// grantLocked serves the one who waits, may have what it wants, and whose owner holds least;
// among equals the one that holds most itself, as it ends soonest, and then in order of
// arrival. It reports whether there was one.
func (p *Pool) grantLocked() bool {
	best, least := -1, int64(0)
	for i, w := range p.waiting {
		if !p.shares.allowsLeaving(&w.lease.owner, w.lease.held, w.bytes, w.spare) {
			continue
		}
		held := p.shares.heldBy(&w.lease.owner)
		if best < 0 || held < least || held == least && w.lease.held > p.waiting[best].lease.held {
			best, least = i, held
		}
	}
	if best < 0 {
		return false
	}
	w := p.removeLocked(best)
	p.chargeLocked(w.lease, w.bytes)
	close(w.ended)
	return true
}
