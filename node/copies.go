package node

import (
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// Copies tells of all replicas in the data folder, of those too that take no part: what a
// shard whose group has lost its majority may go on from. Error: series.ErrUnavailable.
func (n *Node) Copies() (shardmap.NodeCopies, error) {
	out := shardmap.NodeCopies{Node: n.options.NodeID, Incarnation: n.engine.Incarnation(), Former: n.FormerIncarnations(), SyncMs: n.syncMs()}
	err := n.loop.queue.do(func() { out.Copies = n.loop.copies() })
	return out, err
}

// syncMs bounds how long it takes until the log is on disk; 0: nothing does.
func (n *Node) syncMs() int64 {
	switch n.options.Sync {
	case SyncInterval:
		return max(1, n.options.SyncInterval.Milliseconds())
	case SyncAlways:
		return 1 // nothing is answered before
	case SyncOff:
	}
	return 0
}

// FormerIncarnations gives what the data folder was before: the last ones.
func (n *Node) FormerIncarnations() []string {
	return slices.DeleteFunc(slices.Clone(n.former), func(id string) bool { return id == n.engine.Incarnation() })
}

func (l *loop) copies() (out []shardmap.Copy) {
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil {
			continue
		}
		c := copyOf(&status.Replica, &status.Configuration, replica.Position{Index: status.Last, Term: status.LastTerm})
		c.Leads, c.NewestMs = status.Leads, l.newestMs[shard]
		c.Unclear = status.Installing || status.Fault != nil || l.installing[shard] != nil
		out = append(out, c)
	}
	for _, shard := range slices.Sorted(maps.Keys(l.relics)) {
		r := l.relics[shard]
		c := copyOf(&r.state.Replica, &r.state.Configuration, r.last())
		c.Relic, c.NewestMs = true, r.newestMs
		out = append(out, c)
	}
	for shard, orphan := range l.orphans {
		if orphan {
			out = append(out, shardmap.Copy{Shard: uint16(shard), Role: shardmap.Full, Relic: true, Unclear: true})
		}
	}
	return out
}

func copyOf(r *replica.Replica, c *replica.Configuration, last replica.Position) shardmap.Copy {
	return shardmap.Copy{
		Shard: r.Shard, RaftID: r.RaftID, Era: r.Era, Role: r.Role, Term: last.Term, Index: last.Index,
		ConfigIndex: c.Index, Members: slices.Clone(c.Members), Leaving: slices.Clone(c.Leaving), Outgoing: slices.Clone(c.Outgoing),
	}
}

// last gives the last entry that the relic has, as Host.Restore will find it.
func (r *relic) last() replica.Position {
	if swap := &r.state.Installing; swap.Index > 0 && r.summary.Applied == swap.Index {
		return swap.Position
	}
	at := r.state.Truncated
	if r.summary.Last > at.Index && len(r.summary.Runs) > 0 {
		at = replica.Position{Index: r.summary.Last, Term: r.summary.Runs[len(r.summary.Runs)-1].Term}
	}
	if r.summary.Applied > at.Index { // the log lost what the engine has
		at.Index = r.summary.Applied
	}
	return at
}
