package fanout

import (
	"math/rand/v2"
	"sync"

	"github.com/tickmesh/tickmesh/api/series"
)

// sessionSpan bounds how far apart the counters of a session in flight are. Nodes
// know the last 128 counters of a session.
const sessionSpan = 64

// sessions assign ids to frames. A session whose oldest frame takes long runs out of
// counters and rests until that frame has ended; others go on. So there are never
// more sessions than frames in flight, and one that is idle is taken again.
type sessions struct {
	mu   sync.Mutex
	free []*session // guarded by mu: they have counters
	made int        // guarded by mu
}

// session hands out counters. Its fields are guarded by sessions.mu.
type session struct {
	id     uint64
	next   uint64 // counter to be given
	oldest uint64 // no counter before it is in flight
	flying uint64 // bit n%64: counter n, from oldest on, is in flight
}

// take returns an id, and the session that it must be returned to.
func (s *sessions) take() (*session, series.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free = append(s.free, newSession())
		s.made++
	}
	last := s.free[len(s.free)-1]
	id := series.BatchID{Session: last.id, Counter: last.next}
	last.flying |= 1 << (last.next % sessionSpan)
	last.next++
	if last.full() {
		s.free = s.free[:len(s.free)-1]
	}
	return last, id
}

// give ends an id: no attempt will be made with it any more.
func (s *sessions) give(of *session, id series.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wasFull := of.full()
	of.flying &^= 1 << (id.Counter % sessionSpan)
	for of.oldest < of.next && of.flying&(1<<(of.oldest%sessionSpan)) == 0 {
		of.oldest++
	}
	if wasFull && !of.full() {
		s.free = append(s.free, of)
	}
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

func newSession() *session {
	s := &session{next: 1, oldest: 1}
	for s.id == 0 {
		s.id = rand.Uint64()
	}
	return s
}

func (s *session) full() bool { return s.next-s.oldest >= sessionSpan }
