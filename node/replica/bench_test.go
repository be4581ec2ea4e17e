package replica

import (
	"fmt"
	"testing"
)

// BenchmarkSingleVoter is the path of an entry of a group of one: proposed, logged, given out.
func BenchmarkSingleVoter(b *testing.B) {
	for _, inRound := range []int{1, 16} {
		b.Run(fmt.Sprintf("entries=%d", inRound), func(b *testing.B) {
			w := newWorld(b, 1, 1)
			host := w.nodes[0].host
			for shard := range 16 {
				if err := host.Create(Replica{Shard: uint16(shard), RaftID: 1, Role: full}, members(full)); err != nil {
					b.Fatal(err)
				}
			}
			var round Round
			parts := [][]byte{make([]byte, 4096)}
			b.ReportAllocs()
			for b.Loop() {
				for i := range inRound {
					if err := host.Propose(uint16(i), 1, parts, 1); err != nil {
						b.Fatal(err)
					}
				}
				if !host.Ready(&round) || len(round.Committed) != inRound {
					b.Fatal("not given out")
				}
				host.Advance(&round)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*inRound), "ns/entry")
		})
	}
}

// trio is three Hosts that pass envelopes on at once.
type trio struct {
	hosts     [3]*Host
	rounds    [3]Round
	committed int
}

func newTrio(b *testing.B, groups int) *trio {
	t := &trio{}
	w := newWorld(b, 1, 3)
	for i, n := range w.nodes {
		t.hosts[i] = n.host
	}
	for shard := range groups {
		for i, host := range t.hosts {
			if err := host.Create(Replica{Shard: uint16(shard), RaftID: uint64(i + 1), Role: full}, members(full, full, full)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 400 {
		for _, host := range t.hosts {
			host.Tick()
		}
		t.deliverAll(b)
	}
	return t
}

func (t *trio) deliverAll(b *testing.B) {
	for busy := true; busy; {
		busy = false
		for i, host := range t.hosts {
			if !host.Ready(&t.rounds[i]) {
				continue
			}
			busy = true
			t.pass(b, i, t.rounds[i].Early)
			host.Advance(&t.rounds[i])
			t.pass(b, i, t.rounds[i].Late)
			for _, c := range t.rounds[i].Committed {
				host.Applied(c.Shard, c.Index)
				if c.Token != 0 {
					t.committed++
				}
			}
		}
	}
}

func (t *trio) pass(b *testing.B, from int, out []Outgoing) {
	for _, o := range out {
		if err := t.hosts[o.To[1]-'0'].Receive(fmt.Sprintf("n%d", from), o.Bytes); err != nil {
			b.Fatal(err)
		}
	}
}

func (t *trio) leader(b *testing.B, shard uint16) *Host {
	for _, host := range t.hosts {
		if host.group(shard).leads() {
			return host
		}
	}
	b.Fatal("no leader")
	return nil
}

// BenchmarkThree is all that three replicas do for an entry, without disk and network.
func BenchmarkThree(b *testing.B) {
	for _, size := range []int{256, 16 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			t := newTrio(b, 1)
			leader := t.leader(b, 0)
			parts := [][]byte{make([]byte, size)}
			b.ReportAllocs()
			for b.Loop() {
				if err := leader.Propose(0, 1, parts, 1); err != nil {
					b.Fatal(err)
				}
				t.deliverAll(b)
			}
			if t.committed < b.N {
				b.Fatalf("%d of %d committed", t.committed, b.N)
			}
		})
	}
}

// BenchmarkTick is a tick of a node with 128 groups of three that have nothing to do.
func BenchmarkTick(b *testing.B) {
	for _, hibernateTicks := range []int{6, 1 << 40} {
		b.Run(fmt.Sprintf("hibernating=%v", hibernateTicks == 6), func(b *testing.B) {
			t := newTrio(b, 128)
			for _, host := range t.hosts {
				host.shared.config.HibernateTicks = hibernateTicks
				if hibernateTicks > 6 {
					for _, g := range host.groups {
						g.wake()
					}
				}
			}
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				for i, host := range t.hosts {
					host.Tick()
					t.deliverAll(b)
					for _, o := range t.rounds[i].Early {
						sent += len(o.Bytes)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(3*b.N), "ns/node-tick")
		})
	}
}

// BenchmarkRead is a read that three replicas confirm.
func BenchmarkRead(b *testing.B) {
	t := newTrio(b, 1)
	leader := t.leader(b, 0)
	b.ReportAllocs()
	for b.Loop() {
		if err := leader.Read(0, 1); err != nil {
			b.Fatal(err)
		}
		t.deliverAll(b)
	}
}
