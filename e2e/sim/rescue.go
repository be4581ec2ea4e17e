package sim

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// rescue lets groups go on that have lost their majority for good, when all who may have
// data are back: what the placement loop does. In the end it is the person who knows that
// lost disks will not come back.
func (w *World) rescue() {
	store := w.server.Open(shardmap.Seen{})
	view, err := store.Load(w.ctx)
	if err != nil || !w.options.Rescue || view.Map == nil || view.Overtaken() != nil {
		return
	}
	before := w.lost
	w.lost = map[uint16]uint64{}
	found := shardmap.Recoveries(view.Map, w.copies())
	for i := range found {
		r := &found[i]
		if r.Electable || !r.Automatic() && !w.personKnows() {
			continue
		}
		version := view.Map.Rows[r.Shard].Version
		if seen, again := before[r.Shard]; !again || seen != version {
			w.lost[r.Shard] = version
			continue
		}
		next, err := view.Map.Recover(r, w.now/1000, !r.Automatic())
		if err != nil {
			w.fail(14, "recover shard %d: %v", r.Shard, err)
			return
		}
		from := w.found(r)
		if err := store.CompareAndSwap(w.ctx, view.Map.Epoch, next); err != nil {
			return
		}
		w.trace.note("rescue", next.Rows[r.Shard].Members[0].Node, int(r.Shard), int(r.Era), int(from.last.Index))
		w.begun(r.Shard, r.Era, from, r.Automatic())
		return
	}
}

// personKnows reports whether all has been healed for so long that who is not there now will
// not come.
func (w *World) personKnows() bool {
	return w.healed && w.now > int64(w.options.ActiveMs)*1000+personMs*1000
}

const personMs = 8000

// copies returns what all nodes that run say.
func (w *World) copies() (out []shardmap.NodeCopies) {
	for _, n := range w.nodes {
		if n.process == nil || n.process.pausedUntil > w.now {
			continue
		}
		said := shardmap.NodeCopies{Node: n.id, Incarnation: n.folder.incarnation, Former: n.folder.former, SyncMs: syncInterval / 1000}
		for _, shard := range n.process.host.Shards() {
			status, err := n.process.host.Status(shard)
			if err != nil {
				continue
			}
			c := copyOf(&status.Replica, &status.Configuration, replica.Position{Index: status.Last, Term: status.LastTerm})
			c.Leads, c.Unclear = status.Leads, status.Installing || n.process.fetching[shard]
			said.Copies = append(said.Copies, c)
		}
		for i := range n.folder.relics {
			r := &n.folder.relics[i]
			c := copyOf(&replica.Replica{Shard: r.shard, RaftID: r.raftID, Era: r.era, Role: r.role}, &r.config, r.last)
			c.Relic = true
			said.Copies = append(said.Copies, c)
		}
		out = append(out, said)
	}
	return out
}

func copyOf(r *replica.Replica, c *replica.Configuration, last replica.Position) shardmap.Copy {
	return shardmap.Copy{Shard: r.Shard, RaftID: r.RaftID, Era: r.Era, Role: r.Role, Term: last.Term, Index: last.Index,
		ConfigIndex: c.Index, Members: slices.Clone(c.Members), Leaving: slices.Clone(c.Leaving), Outgoing: slices.Clone(c.Outgoing)}
}

// found returns what the copy has that a shard goes on from.
func (w *World) found(r *shardmap.Recovery) *relic {
	if r.Best == nil {
		return &relic{shard: r.Shard}
	}
	n := w.node(r.Best.Node)
	if r.Best.Relic {
		return n.folder.relic(r.Shard, r.Best.RaftID)
	}
	g := &n.folder.images[r.Shard]
	var terms []replica.TermRun
	for i, term := range g.terms {
		terms = append(terms, replica.TermRun{First: g.first + uint64(i), Term: term})
	}
	return &relic{shard: r.Shard, terms: terms, raftID: r.Best.RaftID, era: r.Best.Era, state: n.process.whole(r.Shard, r.Best.Index),
		last: replica.Position{Index: r.Best.Index, Term: r.Best.Term}}
}

// whole returns the state of a shard with all that its log has.
func (p *process) whole(shard uint16, last uint64) shardState {
	state := p.engine[shard].clone()
	state.ahead = 0
	if state.applied >= last {
		return state
	}
	entries, err := p.Entries(shard, state.applied+1, last+1, 1<<30)
	if err != nil {
		p.world.fail(0, "%s: entries of shard %d: %v", p.node.id, shard, err)
		return state
	}
	for i := range entries {
		of := &entries[i]
		p.applyEntry(&state, &storage.Entry{Kind: storage.EntryKind(of.Kind), Shard: shard, Term: of.Term, Index: of.Index, Body: of.Body})
	}
	return state
}

// goOnAlone lets a group go on from the replica here, if that is what the map wants.
func (p *process) goOnAlone(shard uint16, row *shardmap.Row, status *replica.GroupStatus) bool {
	named, settled := row.MemberOn(p.node.id, p.folder.incarnation)
	if !settled || row.Era <= status.Era || len(row.Members) != 1 || row.Fresh || named.RaftID == status.RaftID || status.Role == shardmap.Witness {
		return false
	}
	if status.Installing || status.Syncing {
		return true
	}
	is := relic{era: status.Era, last: replica.Position{Index: status.Last, Term: status.LastTerm}}
	better := slices.ContainsFunc(p.folder.relics, func(r relic) bool { return r.shard == shard && r.role != shardmap.Witness && r.better(&is) })
	if len(status.Configuration.Voters) == 0 || better {
		p.remove(shard) // a relic goes on in its place
		return true
	}
	if err := p.host.Force(shard, named.RaftID, row.Era); err != nil {
		p.world.fail(0, "%s: shard %d cannot go on alone: %v", p.node.id, shard, err)
	}
	g := &p.folder.images[shard]
	g.raftID, g.era = named.RaftID, row.Era
	p.world.trace.note("alone", p.node.id, int(shard), int(row.Era))
	return true
}
