package storage

import (
	"sync"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// version is what a scan sees besides the hot pages: an immutable list of
// segments, the tombstones, and from which generation on the page log holds what
// the segments do not.
type version struct {
	segments         []*segment.Reader // by sequence, oldest first
	tombstones       tombstones
	floors           []floor   // by shard
	excluded         excluded  // sections of segments that do not count
	missing          []missing // segments that count and cannot be read
	generationOldest uint32

	refs  int      // guarded by versions.mu
	next  *version // the version that replaced this one
	after []func() // to do when this and all older versions are unused
}

// versions hands out the current version and keeps what old ones still read.
//
// What a new version no longer names (segments, generations) may be in use by a
// scan that holds an older one. A scan also follows hot pages into generations
// that are younger than its version. Therefore something is given up only when
// all versions older than the one that dropped it are released.
type versions struct {
	mu      sync.Mutex
	oldest  *version
	current *version
	sweeper sweeper
}

// acquire gives the current version. The caller gives it back, by leave or release.
func (vs *versions) acquire() *version {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.current.refs++
	return vs.current
}

// release gives a version back and does what waited for that. It is for maintenance.
func (vs *versions) release(v *version) {
	for _, act := range vs.giveBack(v) {
		act()
	}
}

// leave is release for readers: what waited for it is left to the sweeper.
func (vs *versions) leave(v *version) { vs.sweeper.add(vs.giveBack(v)) }

func (vs *versions) giveBack(v *version) (actions []func()) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v.refs--
	if v.refs < 0 {
		panic("BUG: a version of the storage was released twice")
	}
	return vs.collectLocked()
}

// peek gives the current version to who keeps others from replacing it, and only
// copies it.
func (vs *versions) peek() *version {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.current
}

// publish replaces the current version. It gives the actions that the caller
// runs: after, unless a scan still sees what came before v. Then the last such scan leaves
// it to the sweeper.
func (vs *versions) publish(v *version, after ...func()) (actions []func()) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.current == nil {
		vs.oldest = v
	} else {
		vs.current.next = v
		vs.current.after = after
	}
	vs.current = v
	return vs.collectLocked()
}

func (vs *versions) collectLocked() (actions []func()) {
	for vs.oldest != vs.current && vs.oldest.refs == 0 {
		actions = append(actions, vs.oldest.after...)
		vs.oldest = vs.oldest.next
	}
	return actions
}
