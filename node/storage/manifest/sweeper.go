package manifest

import "sync"

// Sweeper deletes what no version names any more in place of the reader that was the
// last to see it: unmapping and removing files waits for disks and locks, for which no
// answer to a query should wait.
type Sweeper struct {
	mu struct {
		sync.Mutex
		actions []func() // what versions have dropped: at most one for each segment and generation
		working bool
		rest    chan struct{} // closed when there is nothing left to do; nil: nobody waits
	}
}

// Add hands actions to the sweeper, which does them in order.
func (s *Sweeper) Add(actions []func()) {
	if len(actions) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.actions = append(s.mu.actions, actions...)
	if !s.mu.working {
		s.mu.working = true
		go s.work()
	}
}

func (s *Sweeper) work() {
	for actions := s.next(); len(actions) > 0; actions = s.next() {
		for _, act := range actions {
			act()
		}
	}
}

// next takes all actions; none ends the work.
func (s *Sweeper) next() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	actions := s.mu.actions
	s.mu.actions = nil
	if len(actions) == 0 {
		s.mu.working = false
		if s.mu.rest != nil {
			close(s.mu.rest)
			s.mu.rest = nil
		}
	}
	return actions
}

// Wait returns when everything that was added before is done.
func (s *Sweeper) Wait() {
	s.mu.Lock()
	if !s.mu.working {
		s.mu.Unlock()
		return
	}
	if s.mu.rest == nil {
		s.mu.rest = make(chan struct{})
	}
	rest := s.mu.rest
	s.mu.Unlock()
	<-rest
}

// Awaited reports whether somebody waits.
func (s *Sweeper) Awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.rest != nil
}
