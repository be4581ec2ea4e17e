package storage

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// lease is what one reader holds: a version, and a pin of the generations of the page log
// that are not in its segments. It is for one goroutine.
//
// A reader stands still for as long as its client likes, and generations bound what can be
// written. So it holds them only from enter to park, while it copies the pages of one series. Who
// publishes a newer version takes them from a lease that is parked, and the next enter gives it
// that version. Its segments it keeps until then.
type lease struct {
	versions *versions
	pages    *pagelog.Log
	state    atomic.Int32
	version  *version     // changed with versions.mu held
	pin      *pagelog.Pin // belongs to who has moved the state from leaseParked
}

const (
	leaseEntered = iota
	leaseParked
	leaseRevoked // generations were given back
)

// lease returns a lease of the current version that is entered. The caller gives it back by end.
func (vs *versions) lease(pages *pagelog.Log) *lease {
	l := &lease{versions: vs, pages: pages}
	l.take()
	return l
}

// take takes the current version.
func (l *lease) take() {
	vs := l.versions
	vs.mu.Lock()
	l.version = vs.current
	l.version.refs++
	l.version.leases++
	vs.leases[l] = struct{}{}
	l.state.Store(leaseEntered)
	vs.mu.Unlock()
	l.pin = l.pages.PinFrom(l.version.generationOldest)
}

// end gives the lease back.
func (l *lease) end() {
	held := l.hold()
	if held {
		_ = l.pin.Close() // before the generations may be dropped: then it is not the last to hold them
	}
	vs := l.versions
	vs.mu.Lock()
	if held {
		l.version.refs--
	}
	l.version.leases--
	delete(vs.leases, l)
	actions := vs.collectLocked()
	vs.mu.Unlock()
	vs.sweeper.add(actions)
}

// hold makes sure that nobody takes the generations, and reports whether they are there.
func (l *lease) hold() bool {
	return l.state.Load() == leaseEntered || l.state.CompareAndSwap(leaseParked, leaseEntered)
}

// enter lets the reader read pages of the current version. It reports whether that is another
// one than before: what the reader knows of segments is of no use then.
func (l *lease) enter() (renewed bool) {
	if l.versions.latest.Load() == l.version && l.hold() {
		return false
	}
	l.end()
	l.take()
	return true
}

// park says that the reader reads no page before it enters again. A lease that is parked
// stays as it is.
func (l *lease) park() {
	if !l.state.CompareAndSwap(leaseEntered, leaseParked) {
		return
	}
	if l.versions.latest.Load() != l.version && l.state.CompareAndSwap(leaseParked, leaseRevoked) {
		_ = l.pin.Close()
		l.versions.leave(l.version)
	} // else who publishes another one will find it parked
}

// revokeLocked takes the generations of a lease that is parked and has an older version. It
// returns how to give them back. The caller holds versions.mu. What waited for the version is left
// to the sweeper: who publishes may hold the lock of a shard, which dropping a generation takes.
func (l *lease) revokeLocked() (giveBack func(), revoked bool) {
	if l.version == l.versions.current || !l.state.CompareAndSwap(leaseParked, leaseRevoked) {
		return nil, false
	}
	pin, v := l.pin, l.version
	return func() {
		_ = pin.Close()
		l.versions.leave(v)
	}, true
}

// renewPin makes generations readable that began since the lease was entered.
func (l *lease) renewPin() {
	_ = l.pin.Close()
	l.pin = l.pages.PinFrom(l.version.generationOldest)
}
