package replica

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// peer is another node that shares groups with this one.
type peer struct {
	name   string
	groups int  // groups that both are members of
	heard  int  // ticks since its last envelope
	silent bool // nothing was heard for an election timeout
	slow   slowness
	run    uint64 // Config.Run of its present start; 0: not known
	beat   bool   // an envelope is due, if need be an empty one
	early  outbox // for Round.Early
	late   outbox // for Round.Late
}

// envelopeBytesMax bounds an envelope. A larger message has one of its own.
const envelopeBytesMax = 1 << 20

// outbox gathers messages for one peer into envelopes, until the next Round.
type outbox struct {
	open   []byte
	sealed [][]byte
	usual  int // bytes of the last envelope, by which the next one is allocated
}

func (o *outbox) add(m *envelope.Message, run uint64) {
	most := m.BytesMost()
	if len(o.open) > 0 && len(o.open)+most > envelopeBytesMax {
		o.seal()
	}
	if len(o.open) == 0 {
		o.open = envelope.Begin(make([]byte, 0, max(256, most+32, o.usual+o.usual/8)), run)
	}
	o.open = m.AppendTo(o.open)
}

func (o *outbox) seal() {
	if len(o.open) > 0 {
		o.usual = len(o.open)
		o.sealed = append(o.sealed, envelope.End(o.open))
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

// peerTable has the other nodes that share groups with this one, sorted by name.
type peerTable struct {
	node           string // this one
	run            uint64 // of its present start
	electionTicks  int
	heartbeatTicks int
	list           []*peer
	slowest        int // greatest slowness.extra of a peer
}

// find returns the peer with a name, or nil if there is none.
func (t *peerTable) find(name string) *peer {
	if at, found := t.search(name); found {
		return t.list[at]
	}
	return nil
}

func (t *peerTable) search(name string) (int, bool) {
	return slices.BinarySearchFunc(t.list, name, func(p *peer, name string) int { return cmp.Compare(p.name, name) })
}

// get returns the peer with a name, and adds it if there is none.
func (t *peerTable) get(name string) *peer {
	at, found := t.search(name)
	if !found {
		t.list = slices.Insert(t.list, at, &peer{name: name})
	}
	return t.list[at]
}

// recount counts how many groups each peer shares with this node, and forgets peers that
// share none and for which nothing waits.
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

// tick advances time by one tick, and returns the peers that have become silent with it.
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

// heardFrom notes an envelope, and reports whether its sender has restarted since the one
// before. Such a peer leads no group any more.
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

// add queues a message for a node.
func (t *peerTable) add(node string, m *envelope.Message, early bool) {
	if p := t.get(node); early {
		p.early.add(m, t.run)
	} else {
		p.late.add(m, t.run)
	}
}

// drain moves the envelopes to round, and adds an empty one where a beat is due.
func (t *peerTable) drain(round *Round) {
	for _, p := range t.list {
		n := len(round.Early) + len(round.Late)
		round.Early = p.early.drain(p.name, round.Early)
		round.Late = p.late.drain(p.name, round.Late)
		if p.beat && n == len(round.Early)+len(round.Late) {
			round.Early = append(round.Early, Outgoing{To: p.name, Bytes: envelope.End(envelope.Begin(nil, t.run))})
		}
		p.beat = false
	}
}
