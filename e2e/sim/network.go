package sim

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/commit"
)

// network carries messages between processes: late, twice, in another order, or not
// at all.
type network struct {
	world *World
	cut   map[link]bool  // one way
	slow  map[link]int64 // µs more
	loss  float64
	twice float64
}

type link struct{ from, to string }

// deliver does something at the other end, if the message gets there.
func (n *network) deliver(from, to string, do func()) {
	w := n.world
	if n.cut[link{from, to}] || n.loss > 0 && w.rng.Float64() < n.loss {
		return
	}
	delay := w.between(20, 300) + n.slow[link{from, to}]
	if w.chance(100) {
		delay += w.between(1000, 40_000)
	}
	w.after(delay, do)
	if n.twice > 0 && w.rng.Float64() < n.twice {
		w.after(delay+w.between(0, 2_000_000), do)
	}
}

func (n *network) envelope(p *process, to string, bytes []byte) {
	from, kept := p.node.id, slices.Clone(bytes)
	n.deliver(from, to, func() {
		if other := n.world.node(to); other != nil && other.process != nil {
			q := other.process
			q.run(func() {
				q.inbox.envelopes = append(q.inbox.envelopes, commit.Envelope{From: from, Bytes: kept})
				q.wake()
			})
		}
	})
}

// tellPeers lets the others notice that connections to a node stand, or broke.
func (w *World) tellPeers(id string, up bool) {
	for _, n := range w.nodes {
		if n.id == id || n.process == nil || w.chance(4) {
			continue
		}
		p := n.process
		p.after(w.between(100, 20_000), func() {
			p.command(func() {
				if up {
					p.machine.Host().PeerUp(id)
				} else {
					p.machine.Host().PeerDown(id)
				}
			})
		})
	}
}
