package replica

import (
	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// A voter may ask for its group because a router reaches it and not the leader. Of two
// routers that reach different nodes each may have its own asked, and the group shall
// not go to and fro between them; nor shall it go back at once because leaders are to be
// spread evenly.
const (
	takeOverTicks = 200    // 10 s: a leader that asked gives the group to another one that asks no sooner
	takenTicks    = 12_000 // 10 min: so long its status says that it asked
)

// askToLead asks the group's leader to hand over to this replica. It may get lost, or
// be refused without a word. Errors: NotLeaderError when nobody can be asked.
func (g *group) askToLead() error {
	if g.shared.refuses {
		return ErrBusy
	}
	if g.lead == raft.None || g.lead == g.replica.RaftID || g.installing != nil {
		return g.notLeader()
	}
	g.askedUntil = g.shared.ticks + 2*g.shared.config.ElectionTicks
	g.sendOwn(envelope.TakeOver, g.lead, 0)
	g.mark()
	return nil
}

// takeOver answers a replica that asks to lead: a full voter that has nearly all of
// the log, as the group takes no proposals until it has the rest.
func (g *group) takeOver(m *envelope.Message) {
	if !g.leads() || m.Term != g.term || !g.mayTransfer() || g.tookOver && g.shared.ticks-g.ledSince < takeOverTicks {
		return
	}
	ready := false
	g.eachProgress(func(p MemberProgress) {
		ready = ready || p.Member.RaftID == m.From && p.Member.Role == shardmap.Full && p.Replicating && p.Match >= g.commit
	})
	if ready {
		g.transfer(m.From)
	}
}
