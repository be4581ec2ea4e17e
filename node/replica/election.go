package replica

import "go.etcd.io/raft/v3"

// drawTimeout draws the ticks of silence after which g campaigns: one to two election
// timeouts, and one more for a witness, so that a full voter comes first.
func (g *group) drawTimeout() int {
	e := g.shared.config.ElectionTicks
	timeout := e + g.shared.rng.IntN(e)
	if g.witness() {
		timeout += e
	}
	return timeout
}

// forgetIfDue drops a leader that has been silent for an election timeout, so that
// this replica may vote for another.
func (g *group) forgetIfDue() {
	if g.lead != raft.None && g.elapsed >= g.shared.config.ElectionTicks+g.extraTicks() {
		g.forgetLeader()
	}
}

func (g *group) forgetLeader() {
	defer g.contain()
	// Only a replica that follows by leases refuses; none here does.
	_ = g.node.ForgetLeader()
	g.lead, g.forgot = raft.None, true
	g.mark()
}

func (g *group) campaign() {
	defer g.contain()
	// Another try comes sooner: the leader has been given up already.
	g.elapsed, g.timeout = 0, g.drawTimeout()-g.shared.config.ElectionTicks/2
	if g.quickCampaigns > 0 {
		const soon = 2 // ticks: an answer has had its time
		g.quickCampaigns--
		g.timeout = soon + g.shared.rng.IntN(soon+1)
		if g.witness() {
			g.timeout += soon
		}
	}
	if g.installing != nil {
		return
	}
	// It does nothing for a replica that has no vote.
	_ = g.node.Campaign()
	g.mark()
}

// extraTicks returns by how much an election timeout of g is longer than on quick
// machines: for its leader, or for votes of anybody.
func (g *group) extraTicks() int {
	if g.shared.peers.slowest == 0 || g.lead == raft.None {
		return g.shared.peers.slowest
	}
	if p := g.shared.peers.find(g.leaderNode()); p != nil {
		return p.slow.extra
	}
	return g.shared.peers.slowest
}
