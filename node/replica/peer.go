package replica

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// peer is another node that shares groups with this one.
type peer struct {
	name   string
	groups int // shared with this node
	heard  int // ticks since its last envelope
	silent bool
	slow   slowness
	run    uint64 // of its present start; 0: not known
	beat   bool   // an envelope is due, even an empty one
	early  outbox
	late   outbox
}

// envelopeBytesMax is where an envelope ends and the next begins; a larger message
// goes alone.
const envelopeBytesMax = 1 << 20

// outbox is the envelopes for one peer in the next Round.
type outbox struct {
	open   []byte
	sealed [][]byte
	usual  int // bytes of the envelope before: what room is made for
}

func (o *outbox) add(m *message, run uint64) {
	most := m.bytesMost()
	if len(o.open) > 0 && len(o.open)+most > envelopeBytesMax {
		o.seal()
	}
	if len(o.open) == 0 {
		o.open = beginEnvelope(make([]byte, 0, max(256, most+32, o.usual+o.usual/8)), run)
	}
	o.open = m.appendTo(o.open)
}

func (o *outbox) seal() {
	if len(o.open) > 0 {
		o.usual = len(o.open)
		o.sealed = append(o.sealed, endEnvelope(o.open))
		o.open = nil
	}
}

func (o *outbox) drain(to string, out []Outgoing) []Outgoing {
	o.seal()
	for i, b := range o.sealed {
		out = append(out, Outgoing{To: to, Bytes: b})
		o.sealed[i] = nil
	}
	o.sealed = o.sealed[:0]
	return out
}

// peerTable is the other nodes that share groups with this one, by name.
type peerTable struct {
	node           string // this one
	run            uint64 // of its present start
	electionTicks  int
	heartbeatTicks int
	list           []*peer
	slowest        int // ticks beyond an election timeout that some peer may be silent
}

// find returns the peer of this name; nil if there is none.
func (t *peerTable) find(name string) *peer {
	if at, found := t.search(name); found {
		return t.list[at]
	}
	return nil
}

func (t *peerTable) search(name string) (int, bool) {
	return slices.BinarySearchFunc(t.list, name, func(p *peer, name string) int { return cmp.Compare(p.name, name) })
}

// get returns the peer of this name, which it makes if there is none.
func (t *peerTable) get(name string) *peer {
	at, found := t.search(name)
	if !found {
		t.list = slices.Insert(t.list, at, &peer{name: name})
	}
	return t.list[at]
}

// recount counts anew who shares how many groups, and forgets those who share none.
func (t *peerTable) recount(groups []*group) {
	for _, p := range t.list {
		p.groups = 0
	}
	for _, g := range groups {
		for _, list := range [2][]shardmap.Member{g.config.Members, g.config.Leaving} {
			for _, m := range list {
				if m.Node != t.node {
					t.get(m.Node).groups++
				}
			}
		}
	}
	t.list = slices.DeleteFunc(t.list, func(p *peer) bool {
		return p.groups == 0 && len(p.early.open)+len(p.early.sealed)+len(p.late.open)+len(p.late.sealed) == 0
	})
}

// tick lets a tick pass, and returns the peers that have just been silent for too long.
func (t *peerTable) tick(now int) (silent []string) {
	for _, p := range t.list {
		p.beat = p.beat || p.groups > 0 && now%t.heartbeatTicks == 0
		if p.heard++; p.heard >= t.electionTicks+p.slow.extra && !p.silent {
			p.silent = true
			silent = append(silent, p.name)
		}
	}
	return silent
}

// heardFrom notes an envelope, and reports whether its sender was started anew since the
// one before: such a peer leads nothing any more.
func (t *peerTable) heardFrom(name string, run uint64) (restarted bool) {
	p := t.find(name)
	if p == nil {
		return false
	}
	if p.run == run {
		p.slow.heard(p.heard, t.electionTicks)
	}
	p.heard, p.silent = 0, false
	restarted = p.run != run && p.run != 0
	p.run = run
	return restarted
}

// add puts a message into an envelope for the node.
func (t *peerTable) add(node string, m *message, early bool) {
	if p := t.get(node); early {
		p.early.add(m, t.run)
	} else {
		p.late.add(m, t.run)
	}
}

// drain moves the envelopes to the Round.
func (t *peerTable) drain(round *Round) {
	for _, p := range t.list {
		n := len(round.Early) + len(round.Late)
		round.Early = p.early.drain(p.name, round.Early)
		round.Late = p.late.drain(p.name, round.Late)
		if p.beat && n == len(round.Early)+len(round.Late) {
			round.Early = append(round.Early, Outgoing{To: p.name, Bytes: endEnvelope(beginEnvelope(nil, t.run))})
		}
		p.beat = false
	}
}
