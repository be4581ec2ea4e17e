package replica

import "testing"

// ticks lets so many ticks pass.
func (w *world) ticks(n int) {
	for range n * 5 {
		w.step()
	}
}

// termOf returns the greatest term of a shard.
func (w *world) termOf(shard uint16) uint64 {
	term := uint64(0)
	for _, n := range w.nodes {
		if n.up {
			term = max(term, n.host.group(shard).term)
		}
	}
	return term
}

// Nodes that take part only once in more than an election timeout, as on a machine whose
// processor others have, elect a leader and keep it. When they are quick again, the loss
// of a leader is noticed as fast as ever.
func TestSlowNodesKeepLeaders(t *testing.T) {
	for seed := range uint64(10) {
		for _, slow := range []int{6, 12, 24} { // ticks between two looks at what came
			w := newWorld(t, seed, 3)
			for shard := range uint16(4) {
				w.fresh(shard, members(full, full, witness))
			}
			w.until("leaders", func() bool { return w.leaderOf(0) != nil && w.leaderOf(3) != nil })
			w.slow = slow
			w.ticks(600) // it takes a few elections to learn
			before := [4]uint64{}
			for shard := range uint16(4) {
				before[shard] = w.termOf(shard)
			}
			acks := w.acks
			for range 100 {
				w.ticks(10)
				for shard := range uint16(4) {
					if n := w.leaderOf(shard); n != nil {
						w.propose(n, shard)
					}
				}
			}
			for shard := range uint16(4) {
				if after := w.termOf(shard); after > before[shard]+1 {
					t.Errorf("seed %d, %d ticks: shard %d had %d elections in 1000 ticks", seed, slow, shard, after-before[shard])
				}
			}
			if w.acks < acks+100 {
				t.Errorf("seed %d, %d ticks: %d of 400 proposals were committed", seed, slow, w.acks-acks)
			}
			w.slow = 0
			w.ticks(200) // 10 s
			w.until("a leader", func() bool { return w.leaderOf(0) != nil })
			w.crash(w.leaderOf(0))
			start := w.now
			w.until("another leader", func() bool { return w.leaderOf(0) != nil })
			if took, most := (w.now-start)/5, 6*w.nodes[0].host.shared.config.ElectionTicks; took > most {
				t.Errorf("seed %d, %d ticks: another leader took %d ticks after the load, want at most %d", seed, slow, took, most)
			}
		}
	}
}

// A silence that a peer has lived through makes the next one longer, by steps; one that is
// longer than slowness explains does not, and quick peers are soon trusted to be quick.
func TestSlowness(t *testing.T) {
	const election = 8
	var s slowness
	s.heard(slowFactorMax*election+1, election)
	if s.extra != 0 {
		t.Errorf("%d ticks more after the peer was away", s.extra)
	}
	for _, step := range []struct{ gap, want int }{{3, 0}, {5, 2}, {40, 12}, {40, 32}, {40, 56}, {60, 56}} {
		if s.heard(step.gap, election); s.extra != step.want {
			t.Errorf("after a gap of %d: %d ticks more, want %d", step.gap, s.extra, step.want)
		}
	}
	windows := 0
	for s.endWindow(0, election); s.extra > 0; s.endWindow(2, election) {
		windows++
	}
	if windows > 8 {
		t.Errorf("back at the election timeout after %d windows of %d ticks", windows, slowWindow)
	}
}
