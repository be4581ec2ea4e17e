package replica

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// peer is another node that shares groups with this one.
type peer struct {
	name   string
	groups int // shared, not lone
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

// sealEnvelopes puts the peers' envelopes into the Round.
func (h *Host) sealEnvelopes(round *Round) {
	for _, p := range h.peers {
		n := len(round.Early) + len(round.Late)
		round.Early = p.early.drain(p.name, round.Early)
		round.Late = p.late.drain(p.name, round.Late)
		if p.beat && n == len(round.Early)+len(round.Late) {
			round.Early = append(round.Early, Outgoing{To: p.name, Bytes: endEnvelope(beginEnvelope(nil, h.config.Run))})
		}
		p.beat = false
	}
}

func (h *Host) findPeer(name string) (int, bool) {
	return slices.BinarySearchFunc(h.peers, name, func(p *peer, name string) int { return cmp.Compare(p.name, name) })
}

func (h *Host) peer(name string) *peer {
	at, found := h.findPeer(name)
	if !found {
		h.peers = slices.Insert(h.peers, at, &peer{name: name})
	}
	return h.peers[at]
}

// countPeers finds out anew who shares how many groups.
func (h *Host) countPeers() {
	for _, p := range h.peers {
		p.groups = 0
	}
	for _, g := range h.order {
		for _, list := range [2][]shardmap.Member{g.config.Members, g.config.Leaving} {
			for _, m := range list {
				if m.Node != h.config.Node {
					h.peer(m.Node).groups++
				}
			}
		}
	}
	h.peers = slices.DeleteFunc(h.peers, func(p *peer) bool {
		return p.groups == 0 && len(p.early.open)+len(p.early.sealed)+len(p.late.open)+len(p.late.sealed) == 0
	})
}

// tickPeers sends beats, and wakes what a silent peer leads or follows.
func (h *Host) tickPeers() {
	for _, p := range h.peers {
		p.beat = p.beat || p.groups > 0 && h.ticks%h.config.HeartbeatTicks == 0
		if p.heard++; p.heard >= h.config.ElectionTicks+p.slow.extra && !p.silent {
			p.silent = true
			h.wakeWith(p.name)
		}
	}
}

// wakeWith wakes the quiet groups that rely on the node's beats. What it led is given
// up, as an election timeout without a word from it would do.
func (h *Host) wakeWith(node string) {
	for _, g := range h.order {
		switch {
		case g.node == nil:
		case g.state == raft.StateLeader:
			if g.quiet && g.on(node) {
				h.wake(g)
			}
		case g.leaderNode() == node:
			h.wake(g)
			g.elapsed = max(g.elapsed, h.config.ElectionTicks+h.extraTicks(g))
			g.hurries = hurriesMax
			h.forgetIfDue(g)
			g.timeout = g.elapsed - h.extraTicks(g) + h.succession(g, node)
		}
	}
}

// hurriesMax is how many campaigns follow a leader's loss in short order. The first may
// come before the other voters have noticed it and would vote.
const hurriesMax = 3

// succession returns the ticks that g waits when the leader's node is lost: everybody
// notices it at once, so they come one after the other, full voters before witnesses.
func (h *Host) succession(g *group, lost string) int {
	const between = 3 // ticks, for an election
	rank := 0
	for _, m := range g.config.Members {
		if m.Role == shardmap.Full && m.Node != lost && (m.RaftID < g.replica.RaftID || g.witness()) {
			rank++
		}
	}
	return 1 + between*rank
}

// on reports whether a member of the group is on node.
func (g *group) on(node string) bool {
	there := func(m shardmap.Member) bool { return m.Node == node }
	return slices.ContainsFunc(g.config.Members, there) || slices.ContainsFunc(g.config.Leaving, there)
}

// heardFrom notes an envelope. A peer that was started anew leads nothing any more.
func (h *Host) heardFrom(p *peer, run uint64) {
	if p.run == run {
		p.slow.heard(p.heard, h.config.ElectionTicks)
	}
	p.heard, p.silent = 0, false
	if p.run != run {
		known := p.run != 0
		p.run = run
		if known {
			h.wakeWith(p.name)
		}
	}
}

// PeerUp says that a connection to node stands: what was held back for it goes out
// with the next tick.
func (h *Host) PeerUp(node string) {
	for _, g := range h.order {
		if g.node != nil && g.state == raft.StateLeader && g.on(node) {
			h.wake(g)
		}
	}
}

// PeerDown says that the connection to node broke: what was under way is lost. What it
// leads is given up as after an election timeout, so that a killed process costs
// little. If it lives, it is heard again before a campaign, or PreVote keeps it.
func (h *Host) PeerDown(node string) {
	for _, g := range h.order {
		if g.node == nil || g.state != raft.StateLeader {
			continue
		}
		for _, m := range g.config.Members {
			if m.Node == node {
				h.unreachable(g, m.RaftID)
			}
		}
	}
	h.wakeWith(node)
}

func (h *Host) unreachable(g *group, id uint64) {
	defer h.contain(g)
	if g.node != nil {
		g.node.ReportUnreachable(id)
		h.mark(g)
	}
}

// stranger is a sender whose node the configuration does not tell.
type stranger struct {
	id   uint64
	node string
}

const strangersMax = shardmap.MembersMax

// meet remembers where a raft id outside of the configuration is.
func (g *group) meet(id uint64, node string) {
	if _, known := g.config.member(id); known {
		return
	}
	g.strangers = slices.DeleteFunc(g.strangers, func(s stranger) bool { return s.id == id })
	if len(g.strangers) == strangersMax {
		g.strangers = g.strangers[1:]
	}
	g.strangers = append(g.strangers, stranger{id, node})
}

func (g *group) nodeOf(id uint64) string {
	if m, ok := g.config.member(id); ok {
		return m.Node
	}
	for _, s := range g.strangers {
		if s.id == id {
			return s.node
		}
	}
	return ""
}

// route sends one of the library's messages.
func (h *Host) route(g *group, from *pb.Message) {
	m := message{shard: g.replica.Shard, to: from.GetTo(), from: from.GetFrom(), term: from.GetTerm(),
		logTerm: from.GetLogTerm(), index: from.GetIndex(), commit: from.GetCommit(), reject: from.GetReject(),
		hint: from.GetRejectHint(), context: from.GetContext(), entries: from.GetEntries()}
	early := false
	switch from.GetType() {
	case pb.MsgApp:
		m.kind, early = typeApp, true
		if m.index == 0 && slices.Contains(g.config.Learners, m.to) {
			// An empty learner does not know the configuration that the log began with.
			h.sendSnapshot(g, m.to)
			return
		}
		if m.index == 0 {
			h.sendFirst(g, m.to)
		}
	case pb.MsgHeartbeat:
		m.kind, early = typeHeartbeat, true
	case pb.MsgSnap:
		h.sendSnapshot(g, m.to)
		return
	case pb.MsgAppResp:
		m.kind = typeAppResp
	case pb.MsgVote:
		m.kind = typeVote
	case pb.MsgVoteResp:
		m.kind = typeVoteResp
	case pb.MsgPreVote:
		m.kind = typePreVote
	case pb.MsgPreVoteResp:
		m.kind = typePreVoteResp
	case pb.MsgHeartbeatResp:
		m.kind, m.index = typeHeartbeatResp, g.configured
	case pb.MsgTimeoutNow:
		m.kind = typeTimeoutNow
	default:
		return // forwarded proposals and reads: the router finds the leader itself
	}
	h.send(g, &m, early)
}

func (h *Host) send(g *group, m *message, early bool) {
	node := g.nodeOf(m.to)
	if node == "" || node == h.config.Node {
		return
	}
	switch {
	case early:
		h.peer(node).early.add(m, h.config.Run)
	case !h.holds(g):
		h.peer(node).late.add(m, h.config.Run)
	case len(g.hold.messages) < heldMessagesMax:
		g.hold.messages = append(g.hold.messages, heldMessage{node, *m})
	}
}

// sendToMembers sends a message of the Host's own to all members but this one.
func (h *Host) sendToMembers(g *group, kind messageType, index uint64) {
	for _, list := range [2][]shardmap.Member{g.config.Members, g.config.Leaving} {
		for _, member := range list {
			if member.RaftID != g.replica.RaftID {
				h.sendOwn(g, kind, member.RaftID, index)
			}
		}
	}
}

func (h *Host) sendOwn(g *group, kind messageType, to, index uint64) {
	h.send(g, &message{kind: kind, shard: g.replica.Shard, to: to, from: g.replica.RaftID, term: g.term, index: index}, false)
}
