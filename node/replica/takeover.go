package replica

import (
	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// takeOverTicks is how long a leader keeps its group at least before it gives it to a
// voter that asks for it, 10 s: of two routers that reach different nodes each may
// have its own asked, and the group shall not go to and fro between them.
const takeOverTicks = 200

// askToLead asks the group's leader to hand over to this replica. It may get lost, or
// be refused without a word. Errors: NotLeaderError when nobody can be asked.
func (h *Host) askToLead(g *group) error {
	if g.lead == raft.None || g.lead == g.replica.RaftID || g.installing != nil {
		return g.notLeader()
	}
	h.sendOwn(g, typeTakeOver, g.lead, 0)
	h.mark(g)
	return nil
}

// takeOver answers a replica that asks to lead: a full voter that has nearly all of
// the log, as the group takes no proposals until it has the rest.
func (h *Host) takeOver(g *group, m *message) {
	if !g.leads() || m.term != g.term || g.transferee != raft.None || h.ticks-g.ledSince < takeOverTicks {
		return
	}
	ready := false
	g.eachProgress(func(p MemberProgress) {
		ready = ready || p.Member.RaftID == m.from && p.Member.Role == shardmap.Full && p.Replicating && p.Match >= g.commit
	})
	if ready {
		h.transfer(g, m.from)
	}
}
