package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// spareFraction is what part of each bound that all queries share is kept for owners that have little of it, so that one owner's
// queries never keep those of others out.
const spareFraction = 8

// fits reports whether an owner may have own of all places that owners have in total, of which there is max.
func fits(own, all, max int64) bool {
	return all <= maxOfOne(max) || all <= max && own <= max/spareFraction
}

// maxOfOne returns how much one owner may have of a bound.
func maxOfOne(max int64) int64 { return max - max/spareFraction }

// errNoRoom is the error of places.acquire where too many wait.
var errNoRoom = errors.New("too many queries wait")

// places are what queries run in: so many at once. A place that becomes free goes to the owner who has the fewest. It is safe
// for concurrent use.
type places struct {
	max, waitingMax int

	mu      sync.Mutex // guards the rest
	used    int
	of      map[string]*usage
	waiting []*placeWaiter // in order of arrival
}

// usage is what one owner has.
type usage struct{ running, waiting int }

type placeWaiter struct {
	owner string
	turn  chan struct{} // closed when it has a place
}

func newPlaces(max, waitingMax int) *places {
	return &places{max: max, waitingMax: waitingMax, of: map[string]*usage{}}
}

// tryAcquire takes a place, if there is one for the owner and nobody of the owner waits for one.
func (p *places) tryAcquire(owner string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.of[owner]
	if u != nil && u.waiting > 0 || !p.hasRoomLocked(owner) {
		return false
	}
	p.changeLocked(owner, 1, 0)
	return true
}

// acquire waits for a place. Errors: errNoRoom, and that of the context.
func (p *places) acquire(ctx context.Context, owner string) error {
	w := &placeWaiter{owner, make(chan struct{})}
	p.mu.Lock()
	own := 1
	if u := p.of[owner]; u != nil {
		own += u.waiting
	}
	if !fits(int64(own), int64(len(p.waiting)+1), int64(p.waitingMax)) {
		p.mu.Unlock()
		return errNoRoom
	}
	p.waiting = append(p.waiting, w)
	p.changeLocked(owner, 0, 1)
	p.grantLocked() // one may have become free since tryAcquire
	p.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if at < 0 {
		return nil // it has got one meanwhile, and finds the end of its context itself
	}
	p.removeLocked(at)
	return ctx.Err()
}

// release returns a place of an owner.
func (p *places) release(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(owner, -1, 0)
	p.grantLocked()
}

// counts returns how many places are in use, and how many wait for one.
func (p *places) counts() (used, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, len(p.waiting)
}

// hasRoomLocked reports whether an owner may have one place more.
func (p *places) hasRoomLocked(owner string) bool {
	own := 1
	if u := p.of[owner]; u != nil {
		own += u.running
	}
	return fits(int64(own), int64(p.used+1), int64(p.max))
}

// grantLocked hands free places to those who wait: to the owner who runs the fewest, and of equals in order of arrival.
func (p *places) grantLocked() {
	for {
		best := -1
		for i, w := range p.waiting {
			if p.hasRoomLocked(w.owner) && (best < 0 || p.of[w.owner].running < p.of[p.waiting[best].owner].running) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		w := p.removeLocked(best)
		p.changeLocked(w.owner, 1, 0)
		close(w.turn)
	}
}

// removeLocked takes the waiter at an index out.
func (p *places) removeLocked(at int) *placeWaiter {
	w := p.waiting[at]
	p.waiting = slices.Delete(p.waiting, at, at+1)
	p.changeLocked(w.owner, 0, -1)
	return w
}

// changeLocked changes what an owner has, and forgets owners that have nothing.
func (p *places) changeLocked(owner string, running, waiting int) {
	u := p.of[owner]
	if u == nil {
		u = &usage{}
		p.of[owner] = u
	}
	p.used += running
	u.running += running
	if u.waiting += waiting; *u == (usage{}) {
		delete(p.of, owner)
	}
}
