package replica

import "go.etcd.io/raft/v3"

// heir is the member to which its leader hands a group over, from when it campaigns, at the leader's word,
// until it is known who leads. Proposals go to it meanwhile, and wait there: they are in the first
// entry that it makes.
type heir struct {
	id    uint64 // raft id; 0: none
	until int    // tick; an election has ended then
}

func (g *group) expectHeir(id uint64) {
	g.heir = heir{id, g.shared.ticks + g.shared.config.ElectionTicks}
}

// handingOver reports whether it is about to be known who takes proposals, so that they may wait here: the
// leader has stopped taking them for its heir, or the heir campaigns.
func (g *group) handingOver() bool {
	if g.leads() {
		return g.transferee != raft.None
	}
	if g.node == nil || g.heir.id != g.replica.RaftID || g.shared.ticks >= g.heir.until {
		return false
	}
	lead := g.node.BasicStatus().Lead // that of the last Round is older
	return lead == raft.None || lead == g.replica.RaftID
}

// noteTransfer notes that the library has given up a transfer, which it does after an election timeout.
// Writes go on before the next one, for twice as long each time: an heir that cannot take over would stop them for good. One that failed long ago does not count.
func (g *group) noteTransfer() {
	status := g.node.BasicStatus()
	if status.RaftState != raft.StateLeader || g.transferee == status.LeadTransferee {
		return
	}
	g.transferee = status.LeadTransferee
	longest := g.shared.config.ElectionTicks << transferDoublingsMax
	if g.witness() || g.shared.ticks > g.transferFrom+longest { // a witness answers no reads, so it does not wait for long
		g.failedTransfers = 0
	}
	g.transferFrom = g.shared.ticks + min(g.shared.config.ElectionTicks<<g.failedTransfers, longest)
	g.failedTransfers = min(g.failedTransfers+1, transferDoublingsMax)
}

const transferDoublingsMax = 5 // 13 s

// mayTransfer reports whether a transfer may begin: none is under way, and writes have gone on since the last one came to nothing.
func (g *group) mayTransfer() bool {
	return g.transferee == raft.None && g.shared.ticks >= g.transferFrom
}

// successor returns the node that leads, or is about to; "" if it is not known.
func (g *group) successor() string {
	if g.lead == raft.None && g.heir.id != g.replica.RaftID && g.shared.ticks < g.heir.until {
		if m, ok := g.config.member(g.heir.id); ok {
			return m.Node
		}
	}
	return g.leaderNode()
}

func (g *group) notLeader() error {
	err := &NotLeaderError{Shard: g.replica.Shard}
	if !g.leads() {
		err.Leader = g.successor()
	}
	return err
}

func (g *group) transfer(id uint64) {
	defer g.contain()
	g.wake()
	g.node.TransferLeader(id)
	g.transferee = g.node.BasicStatus().LeadTransferee
	g.mark()
}
