package manifest

import (
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Version is what a scan sees besides the hot pages: an immutable list of
// segments, and what of them and of the page log counts.
type Version struct {
	Segments []*segment.Reader // by sequence, oldest first
	Visibility

	// Guarded by versions.mu.
	refs    int      // who may follow it into the page log
	leases  int      // who may read its segments
	next    *Version // the version that replaced this one
	dropped dropped  // by that one
}

// dropped are what to do about what a version no longer names.
type dropped struct {
	pages    []func() // when nobody can follow an older version into the page log
	segments []func() // when nobody has an older version at all
}

// versions hands out the current version and keeps what old ones still read.
//
// What a new version no longer names (segments, generations) may be in use by a
// scan that holds an older one. A scan also follows hot pages into generations
// that are younger than its version. Therefore something is given up only when
// all versions older than the one that dropped it are released. Generations bound what can
// be written, so readers hold them only while they read pages: see lease.
type versions struct {
	mu      sync.Mutex
	oldest  *Version // somebody may read its segments
	paged   *Version // the oldest that somebody may follow into the page log
	current *Version
	latest  atomic.Pointer[Version] // current, for who does not hold the lock
	leases  map[*Lease]struct{}
	Sweeper Sweeper
}

// Acquire returns the current version. The caller releases it with Release, or with Leave if it is a reader.
func (vs *versions) Acquire() *Version {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.current.refs++
	return vs.current
}

// Release releases a version and does what waited for that. It is for maintenance.
func (vs *versions) Release(v *Version) {
	for _, act := range vs.giveBack(v) {
		act()
	}
}

// Leave is release for readers: what waited for it is left to the sweeper.
func (vs *versions) Leave(v *Version) { vs.Sweeper.Add(vs.giveBack(v)) }

func (vs *versions) giveBack(v *Version) (actions []func()) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v.refs--
	if v.refs < 0 {
		panic("BUG: a version of the storage was released twice")
	}
	return vs.collectLocked()
}

// Current returns the current version to who keeps others from replacing it, and only
// copies it.
func (vs *versions) Current() *Version {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.current
}

// publish replaces the current version. It returns the actions that the caller
// runs: among them those of what is dropped, unless a reader still sees what came before v. Then the last such
// reader leaves them to the sweeper.
func (vs *versions) publish(v *Version, d dropped) (actions []func()) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.current == nil {
		vs.oldest, vs.paged = v, v
		vs.leases = map[*Lease]struct{}{}
	} else {
		vs.current.next = v
		vs.current.dropped = d
	}
	vs.current = v
	vs.latest.Store(v)
	for l := range vs.leases {
		if giveBack, revoked := l.revokeLocked(); revoked {
			actions = append(actions, giveBack)
		}
	}
	return append(actions, vs.collectLocked()...)
}

func (vs *versions) collectLocked() (actions []func()) {
	for vs.paged != vs.current && vs.paged.refs == 0 {
		actions = append(actions, vs.paged.dropped.pages...)
		vs.paged = vs.paged.next
	}
	for vs.oldest != vs.paged && vs.oldest.leases == 0 {
		actions = append(actions, vs.oldest.dropped.segments...)
		vs.oldest = vs.oldest.next
	}
	return actions
}
