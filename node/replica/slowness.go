package replica

// On a machine whose processor others have, a node that lives may be heard only once in
// more than an election timeout. With a fixed timeout its leads are then given up and won
// again for ever, and nothing is committed. So a Host learns for each peer how long it may
// be silent: the gap before an envelope of the same start of the peer is proof that the peer
// lived through it. A peer that is dead proves nothing, and is given up after what was
// learnt before; where peers are quick that is ElectionTicks.
const (
	slowFactorMax = 8  // a peer may be silent for so many times ElectionTicks at most
	slowWindow    = 20 // ticks (1 s) over which the longest gap is looked for
	slowMargin    = 2  // the silence that is allowed, in longest gaps
)

// slowness is how long a peer may be silent.
type slowness struct {
	extra int // ticks beyond ElectionTicks
	worst int // the longest gap of this window
}

// heard takes the gap that an envelope has ended. The time allowed at most doubles each
// time: one pause is no proof of more.
func (s *slowness) heard(gap, election int) {
	if gap > slowFactorMax*election {
		return // the peer, or the network, was away
	}
	s.worst = max(s.worst, gap)
	if allowed := min(slowMargin*gap, 2*(election+s.extra), slowFactorMax*election); allowed > election+s.extra {
		s.extra = allowed - election
	}
}

// endWindow approaches what the longest gap of the window needs, by half of the
// difference. Gap is the silence that goes on.
func (s *slowness) endWindow(gap, election int) {
	if gap <= slowFactorMax*election {
		s.worst = max(s.worst, gap)
	}
	if target := max(slowMargin*s.worst-election, 0); target < s.extra {
		s.extra -= (s.extra - target + 1) / 2
	}
	s.worst = 0
}

// learnSlowness ends windows, and finds the slowest peer.
func (t *peerTable) learnSlowness(now int) {
	t.slowest = 0
	for _, p := range t.list {
		if now%slowWindow == 0 {
			p.slow.endWindow(p.heard, t.electionTicks)
		}
		t.slowest = max(t.slowest, p.slow.extra)
	}
}
