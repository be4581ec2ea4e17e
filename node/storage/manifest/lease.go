package manifest

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// Lease is what one reader holds: a version, and a pin of the generations of the page log
// that are not in its segments. It is for one goroutine.
//
// A reader stands still for as long as its client likes, and generations bound what can be
// written. So it holds them only from enter to park, while it copies the pages of one series. Who
// publishes a newer version takes them from a lease that is parked, and the next enter gives it
// that version. Its segments it keeps until then.
type Lease struct {
	versions *versions
	pages    *pagelog.Log
	state    atomic.Int32
	Version  *Version     // changed with versions.mu held
	Pin      *pagelog.Pin // belongs to who has moved the state from leaseParked
}

const (
	leaseEntered = iota
	leaseParked
	leaseRevoked // generations were given back
)

// Lease returns a lease of the current version that is entered. The caller releases it with End.
func (vs *versions) Lease(pages *pagelog.Log) *Lease {
	l := &Lease{versions: vs, pages: pages}
	l.take()
	return l
}

// take takes the current version.
func (l *Lease) take() {
	vs := l.versions
	vs.mu.Lock()
	l.Version = vs.current
	l.Version.refs++
	l.Version.leases++
	vs.leases[l] = struct{}{}
	l.state.Store(leaseEntered)
	vs.mu.Unlock()
	l.Pin = l.pages.PinFrom(l.Version.GenerationOldest)
}

// End releases the lease.
func (l *Lease) End() {
	held := l.hold()
	if held {
		_ = l.Pin.Close() // before the generations may be dropped: then it is not the last to hold them
	}
	vs := l.versions
	vs.mu.Lock()
	if held {
		l.Version.refs--
	}
	l.Version.leases--
	delete(vs.leases, l)
	actions := vs.collectLocked()
	vs.mu.Unlock()
	vs.Sweeper.Add(actions)
}

// hold makes sure that nobody takes the generations, and reports whether they are there.
func (l *Lease) hold() bool {
	return l.state.Load() == leaseEntered || l.state.CompareAndSwap(leaseParked, leaseEntered)
}

// Enter admits the reader to pages of the current version. It reports whether that is another
// one than before: what the reader knows of segments is of no use then.
func (l *Lease) Enter() (renewed bool) {
	if l.versions.latest.Load() == l.Version && l.hold() {
		return false
	}
	l.End()
	l.take()
	return true
}

// Park notes that the reader reads no page before it enters again. A lease that is parked
// stays as it is.
func (l *Lease) Park() {
	if !l.state.CompareAndSwap(leaseEntered, leaseParked) {
		return
	}
	if l.versions.latest.Load() != l.Version && l.state.CompareAndSwap(leaseParked, leaseRevoked) {
		_ = l.Pin.Close()
		l.versions.Leave(l.Version)
	} // else who publishes another one will find it parked
}

// revokeLocked takes the generations of a lease that is parked and has an older version. It
// returns how to release them. The caller holds versions.mu. What waited for the version is left
// to the sweeper: who publishes may hold the lock of a shard, which dropping a generation takes.
func (l *Lease) revokeLocked() (giveBack func(), revoked bool) {
	if l.Version == l.versions.current || !l.state.CompareAndSwap(leaseParked, leaseRevoked) {
		return nil, false
	}
	pin, v := l.Pin, l.Version
	return func() {
		_ = pin.Close()
		l.versions.Leave(v)
	}, true
}

// RenewPin makes generations readable that began since the lease was entered.
func (l *Lease) RenewPin() {
	_ = l.Pin.Close()
	l.Pin = l.pages.PinFrom(l.Version.GenerationOldest)
}
