package node

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// syncer makes the states of groups durable while the loop goes on with other groups: in
// other modes than SyncAlways, where a sync is no part of every round. What is asked for
// during a sync is met by the next one, so that at most one runs and one waits.
type syncer struct {
	log    *wal.Log
	done   func()        // called after each sync
	wake   chan struct{} // holds one signal; closed in the end
	wanted atomic.Uint64 // number of the last round that was written and has to be synced
	synced atomic.Uint64 // number of the last round that is
	broken atomic.Pointer[error]
	told   uint64 // of synced, the host knows; of the loop alone
}

func newSyncer(log *wal.Log, done func()) *syncer {
	return &syncer{log: log, done: done, wake: make(chan struct{}, 1)}
}

// want asks for a sync of a round, which is written, and of those before it.
func (s *syncer) want(round uint64) {
	s.wanted.Store(round)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run syncs until the syncer is closed, or the log is broken.
func (s *syncer) run() {
	for range s.wake {
		round := s.wanted.Load() // the round is written: what Sync begins with has it
		if _, err := s.log.Sync(); err != nil {
			s.fail(err)
			return
		}
		s.synced.Store(round)
		s.done()
	}
}

// fail reports to the loop why nothing will be synced any more, by this syncer or another.
func (s *syncer) fail(err error) {
	s.broken.CompareAndSwap(nil, &err)
	s.done()
}

// news returns the last round that is synced, and whether that has changed since it was
// asked for, or why no more will be.
func (s *syncer) news() (round uint64, changed bool, err error) {
	if broken := s.broken.Load(); broken != nil {
		return s.told, false, *broken
	}
	round = s.synced.Load()
	changed = round != s.told
	s.told = round
	return round, changed, nil
}

func (s *syncer) close() { close(s.wake) }
