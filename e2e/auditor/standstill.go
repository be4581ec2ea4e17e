package auditor

import "time"

// standstillMax is how long nothing at all may change in what is waited for. On a busy machine
// every wait takes longer, so none is bounded as a whole: what goes on may go on, as long as the
// test itself may take.
const standstillMax = 90 * time.Second

// standstill distinguishes a wait in which something happens from one in which nothing does. The
// state is what would change. The zero value begins at its first call.
type standstill[S comparable] struct {
	state S
	since time.Time
}

// tooLong reports whether the state has been the same for standstillMax.
func (s *standstill[S]) tooLong(now time.Time, state S) bool {
	if s.since.IsZero() || state != s.state {
		s.state, s.since = state, now
	}
	return now.Sub(s.since) > standstillMax
}
