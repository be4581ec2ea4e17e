package sim

import (
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/node/commit"
)

// watch looks at the store, and adopts a newer map.
func (p *process) watch() {
	p.store.SetReachable(!p.world.storeCut[p.node.id])
	view, err := p.store.Load(p.world.ctx)
	if errors.Is(err, shardmap.ErrRolledBack) && p.world.is(EpochsGoBack) {
		view, err = p.world.server.Open(shardmap.Seen{}).Load(p.world.ctx)
	}
	if err == nil && view.Map != nil {
		m := view.Map
		p.after(p.world.between(100, 30_000), func() { p.adopt(m) })
	}
}

// adopt goes on with a map that is newer than the present one, as node/agent does: if it allocates
// something to this node, the store has to know that the node has seen it, and to have it still then.
func (p *process) adopt(m *shardmap.Map) {
	kept := p.disk.kept
	if kept != nil && m.Epoch == kept.Epoch {
		return
	}
	if p.seen != nil && m.Epoch < p.seen.Epoch {
		if p.world.is(EpochsGoBack) {
			p.world.trace.note("goes back", p.node.id, int(m.Epoch))
			p.keep(m)
		}
		return
	}
	if !m.Allocates(kept, p.node.id) || p.world.is(EpochUntold) {
		p.keep(m)
		return
	}
	p.seen = m
	if !p.register() {
		return // watch comes again
	}
	p.after(p.world.between(100, 10_000), func() {
		view, err := p.store.Load(p.world.ctx)
		if err == nil && view.Map != nil && view.Map.Equal(*m) && p.seen == m {
			p.keep(m)
		}
	})
}

// keep keeps a map, and goes on with it.
func (p *process) keep(m *shardmap.Map) {
	p.seen, p.disk.kept = m, m
	p.command(func() { p.machine.Adopt(m) })
}

func (p *process) info() shardmap.NodeInfo {
	info := shardmap.NodeInfo{ID: p.node.id, Incarnation: p.disk.incarnation, RPCAddress: p.node.id + ":1", Zone: p.node.zone}
	if p.seen != nil {
		info.ClusterID, info.Epoch = p.seen.ID, p.seen.Epoch
	}
	return info
}

// register keeps the node's entry in the store, and reports whether the store has it as it is.
func (p *process) register() bool {
	if p.registered != nil {
		select {
		case <-p.registered.Lost():
		default:
			err := p.registered.Update(p.world.ctx, p.info())
			if err == nil || errors.Is(err, shardmap.ErrUnavailable) {
				return err == nil
			}
		}
		p.registered = nil
	}
	registration, err := p.store.Register(p.world.ctx, p.info())
	switch {
	case err == nil:
		p.registered = registration
	case errors.Is(err, shardmap.ErrRetired):
		p.world.retiredDisk(p.node)
	}
	return err == nil
}

// swap compares and swaps the map, some time later; the answer comes later still, or
// says that nobody knows.
func (w *World) swap(store *memstore.Store, epoch uint64, next shardmap.Map, run func(func()), answer func(error)) {
	w.after(w.between(100, 20_000), func() {
		err := store.CompareAndSwap(w.ctx, epoch, next)
		if w.options.Faults.has(FaultSwapTimesOut) && !w.healed && w.chance(4) {
			err = shardmap.ErrUnavailable
		}
		if err == nil {
			w.stats.Epochs++
		} else {
			w.trace.note("swap: "+err.Error(), "", int(next.Epoch))
		}
		w.after(w.between(100, 5_000), func() { run(func() { answer(err) }) })
	})
}

// newestMap returns the newest map that any node has.
func (w *World) newestMap() (newest *shardmap.Map) {
	for _, n := range w.nodes {
		if kept := n.disk.kept; kept != nil && (newest == nil || kept.Epoch > newest.Epoch) {
			newest = kept
		}
	}
	return newest
}

// reports returns what the nodes know of the map and, those that answer, of their groups.
func (w *World) reports() (out []shardmap.Report) {
	for _, n := range w.nodes {
		said := shardmap.Report{Node: n.id, Incarnation: n.disk.incarnation, Map: n.disk.kept}
		if n.process != nil && n.process.pausedUntil <= w.now {
			said.Map, said.Groups = n.process.seen, n.process.groupReports()
		}
		out = append(out, said)
	}
	return out
}

func (p *process) groupReports() (out []shardmap.GroupReport) {
	host := p.machine.Host()
	for _, shard := range host.Shards() {
		s, err := host.Status(shard)
		if err != nil {
			continue
		}
		r := shardmap.GroupReport{Shard: shard, Era: s.Era, RaftID: s.RaftID, RaftIDLast: s.RaftID,
			ConfigIndex: s.Configuration.Index, Members: s.Configuration.Members}
		for _, m := range r.Members {
			r.RaftIDLast = max(r.RaftIDLast, m.RaftID)
		}
		out = append(out, r)
	}
	return out
}

// publish writes what groups have reached into the map, as node/agent does: of those of which is
// confirmed, after the map was read that the swap rests on, that this node still leads. So no
// later configuration is replaced by an earlier one.
func (p *process) publish() {
	present := p.disk.kept
	if present == nil || p.settling > 0 {
		return
	}
	p.command(func() {
		claims := p.machine.Unpublished()
		if p.world.is(DropOnMap) {
			p.swapPublished(present, claims)
			return
		}
		p.settling = len(claims)
		var confirmed []commit.GroupConfig
		for _, claim := range claims {
			p.inbox.reads = append(p.inbox.reads, &readWait{request: &request{shard: claim.Shard}, confirmed: func(err error) {
				if err == nil {
					confirmed = append(confirmed, claim)
				}
				if p.settling--; p.settling == 0 && len(confirmed) > 0 {
					p.command(func() { p.swapPublished(present, p.stillUnpublished(confirmed)) })
				}
			}})
		}
		p.wake()
	})
}

// stillUnpublished returns what is still to be published of what was confirmed in the same term.
func (p *process) stillUnpublished(confirmed []commit.GroupConfig) (out []commit.GroupConfig) {
	for _, s := range p.machine.Unpublished() {
		if slices.ContainsFunc(confirmed, func(c commit.GroupConfig) bool { return c.Shard == s.Shard && c.Term == s.Term }) {
			out = append(out, s)
		}
	}
	return out
}

func (p *process) swapPublished(present *shardmap.Map, configs []commit.GroupConfig) {
	next, changed := *present, false
	for _, s := range configs {
		if published, differs := next.Rows[s.Shard].Published(s.Config); differs {
			if published.Validate() != nil {
				published.Intended = nil
			}
			next, changed = next.WithRow(s.Shard, published), true
		}
	}
	if !changed {
		return
	}
	if view, err := p.store.Load(p.world.ctx); err != nil || view.Overtaken() != nil {
		return // the store was set back
	}
	p.world.trace.note("publish", p.node.id, int(next.Epoch))
	p.world.swap(p.store, present.Epoch, next, p.run, func(err error) {
		if err == nil {
			p.adopt(&next)
		}
	})
}

// retiredDisk replaces a disk that may not come back.
func (w *World) retiredDisk(n *node) {
	w.kill(n)
	w.replaceDisk(n)
	w.after(w.between(1000, 100_000), func() { w.startIfDown(n) })
}
