package replica

import (
	"flag"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

var seedsFlag = flag.Uint64("seeds", 6, "random schedules of each kind to run")

const (
	full    = shardmap.Full
	witness = shardmap.Witness
	learner = shardmap.Learner
)

// chance does something bad, or nothing.
func (w *world) chance() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(120) {
	case 0:
		if n.up {
			w.crash(n)
		} else {
			w.start(n)
		}
	case 1, 2:
		if !n.up {
			w.start(n)
		}
	case 3:
		other := w.nodes[w.rng.IntN(len(w.nodes))]
		w.cut[[2]string{n.name, other.name}] = true
	case 4, 5:
		clear(w.cut)
	case 6:
		if n.up {
			n.host.PeerDown(w.nodes[w.rng.IntN(len(w.nodes))].name)
		}
	case 7:
		if n.up {
			n.host.PeerUp(w.nodes[w.rng.IntN(len(w.nodes))].name)
		}
	}
}

// checkpoints lets engines become durable and logs shorter.
func (w *world) checkpoints() {
	for _, n := range w.nodes {
		if !n.up || w.rng.IntN(30) > 0 {
			continue
		}
		for _, shard := range sortedShards(n.engine) {
			if n.host.group(shard) == nil {
				continue
			}
			e := n.engine[shard]
			e.durable = e.applied
			n.host.Durable(shard, e.durable)
			status, _ := n.host.Status(shard)
			at := min(e.durable, status.Trim)
			if w.rng.IntN(4) == 0 {
				at = e.durable // a log that has become too large
			}
			if !n.host.group(shard).witness() {
				_ = n.host.CompactTo(shard, at)
			}
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	clear(w.cut)
	w.loss, w.healed = 0, true
	for _, n := range w.nodes {
		if !n.up {
			w.start(n)
		}
	}
}

// allApplied reports whether all replicas of the shard have applied all that is committed.
func (w *world) allApplied(shard uint16) bool {
	leader := w.leaderOf(shard)
	if leader == nil || leader.waiting {
		return false
	}
	status, _ := leader.host.Status(shard)
	if status.Commit != status.Last || status.Configuration.Joint() {
		return false
	}
	for _, m := range status.Configuration.Members {
		g := w.node(m.Node).host.group(shard)
		if g == nil || w.node(m.Node).engine[shard] == nil || g.commit != status.Last || m.Role != witness && w.node(m.Node).engine[shard].applied != status.Last {
			return false
		}
	}
	return true
}

// checkAcked compares every engine with what was answered.
func (w *world) checkAcked(shard uint16) {
	leader := w.leaderOf(shard)
	for at, token := range w.ackedAt {
		if at.shard != shard {
			continue
		}
		for _, m := range leader.host.group(shard).config.Members {
			if m.Role == witness {
				continue
			}
			if got := w.node(m.Node).engine[shard].data[at.index]; got != w.content[at] {
				w.t.Fatalf("%s: shard %d index %d, answered as token %d, is %q, want %q", m.Node, shard, at.index, token, got, w.content[at])
			}
		}
	}
}

func (w *world) random(shards int, steps int) {
	for range steps {
		w.step()
		w.chance()
		w.checkpoints()
		w.loss = []float64{0, 0.02, 0.3}[w.now/300%3]
		for range 2 {
			n := w.nodes[w.rng.IntN(len(w.nodes))]
			shard := uint16(w.rng.IntN(shards))
			if n.up && n.host.group(shard) != nil {
				switch w.rng.IntN(4) {
				case 0, 1:
					w.propose(n, shard)
				case 2:
					w.read(n, shard)
				case 3:
					if w.rng.IntN(40) == 0 {
						_ = n.host.Transfer(shard, w.nodes[w.rng.IntN(len(w.nodes))].name)
					}
				}
			}
		}
	}
}

func (w *world) finishAndCheck(shards int) {
	w.heal()
	for s := range shards {
		shard := uint16(s)
		w.until(fmt.Sprintf("a leader of shard %d that writes", shard), func() bool {
			leader := w.leaderOf(shard)
			before := w.acked[shard]
			if leader == nil || !w.propose(leader, shard) {
				return false
			}
			for range 100 {
				w.step()
			}
			return w.acked[shard] > before
		})
		w.until(fmt.Sprintf("shard %d applies all", shard), func() bool { return w.allApplied(shard) })
		w.checkAcked(shard)
	}
	for token, n := range w.spent {
		if n != 1 {
			w.t.Fatalf("token %d came back %d times", token, n)
		}
	}
}

func TestRandomSchedules(t *testing.T) {
	for seed := range *seedsFlag {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, 3+int(seed%3))
			w.fresh(0, members(full, full, full))
			w.fresh(1, members(full, full, witness))
			w.fresh(2, members(full))
			w.random(3, 3000)
			w.finishAndCheck(3)
			t.Logf("%d entries, %d answered, %d reads, %d snapshots", len(w.content), w.acks, w.reads, w.images)
			if w.acks < 100 || w.reads < 50 {
				t.Fatal("hardly anything happened")
			}
		})
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	run := func() uint64 {
		w := newWorld(t, 99, 4)
		w.fresh(0, members(full, full, full))
		w.fresh(1, members(full, witness, full, learner))
		w.fresh(7, members(full))
		w.random(2, 1500)
		return w.trace
	}
	if a, b := run(), run(); a != b {
		t.Fatalf("traces %x and %x", a, b)
	}
}
