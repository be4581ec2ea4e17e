package replica

import (
	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// drawTimeout draws the ticks of silence after which g campaigns: one to two election
// timeouts, and one more for a witness, so that a full voter comes first.
func (h *Host) drawTimeout(g *group) int {
	e := h.config.ElectionTicks
	timeout := e + h.rng.IntN(e)
	if g.witness() {
		timeout += e
	}
	return timeout
}

func (h *Host) tickGroup(g *group) {
	if g.state == raft.StateLeader {
		h.tickLeader(g)
		return
	}
	g.elapsed++
	h.forgetIfDue(g)
	if g.elapsed >= g.timeout+h.extraTicks(g) {
		h.campaign(g)
	}
}

// forgetIfDue gives up a leader that has been silent for an election timeout, so that
// this replica may vote for another.
func (h *Host) forgetIfDue(g *group) {
	if g.lead != raft.None && g.elapsed >= h.config.ElectionTicks+h.extraTicks(g) {
		h.forgetLeader(g)
	}
}

func (h *Host) forgetLeader(g *group) {
	defer h.contain(g)
	// Only a replica that follows by leases refuses; none here does.
	_ = g.node.ForgetLeader()
	g.lead = raft.None
	h.mark(g)
}

func (h *Host) campaign(g *group) {
	defer h.contain(g)
	// Another try comes sooner: the leader has been given up already.
	g.elapsed, g.timeout = 0, h.drawTimeout(g)-h.config.ElectionTicks/2
	if g.hurries > 0 {
		const soon = 2 // ticks: an answer has had its time
		g.hurries--
		g.timeout = soon + h.rng.IntN(soon+1)
		if g.witness() {
			g.timeout += soon
		}
	}
	if g.installing != nil {
		return
	}
	// It does nothing for a replica that has no vote.
	_ = g.node.Campaign()
	h.mark(g)
}

// snapshotTicks is how often, in election timeouts, a member that needs files is told.
const snapshotTicks = 4

func (h *Host) tickLeader(g *group) {
	defer h.contain(g)
	h.vouch(g)
	g.node.Tick()
	g.idle++
	h.mark(g)
	if g.transferee != raft.None && h.ticks >= g.transferAt {
		g.transferee = raft.None
	}
	if h.ticks%(snapshotTicks*h.config.ElectionTicks) == 0 {
		g.eachProgress(func(p MemberProgress) {
			if p.NeedsSnapshot && p.Member.RaftID != g.replica.RaftID {
				h.sendSnapshot(g, p.Member.RaftID)
			}
		})
	}
	if g.witness() {
		h.handOver(g)
	}
	if g.idle >= h.config.QuietTicks {
		h.fallQuiet(g)
	}
}

// handOver gives a witness's leadership to a full voter that has its log.
func (h *Host) handOver(g *group) {
	if g.transferee != raft.None {
		return
	}
	var best MemberProgress
	g.eachProgress(func(p MemberProgress) {
		if p.Member.Role == shardmap.Full && p.Active && p.Match >= best.Match && p.Match > 0 {
			best = p
		}
	})
	if best.Match == g.log.last {
		h.transfer(g, best.Member.RaftID)
	}
}
