package sim

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// checkpoint is an epoch of a process: what a checkpoint of it will say.
type checkpoint struct {
	begun    bool
	position int
	applied  []uint64
	states   []shardState // at applied
}

// beginEpoch notes where the next checkpoint will let a replay begin.
func (p *process) beginEpoch() {
	p.checkpoint.begun = false
	p.command(func() {
		c := checkpoint{position: p.folder.end()}
		for shard := range p.places {
			if at, ok := p.places[shard].from(p.dispatched[shard]); ok {
				c.position = min(c.position, at)
			}
		}
		c.applied = append(c.applied, p.dispatched...)
		p.relog = true
		p.applies = append(p.applies, toApply{mark: func() {
			for shard := range p.engine {
				c.states = append(c.states, p.engine[shard].clone())
			}
			c.begun = true
			p.checkpoint = c
		}})
		p.applySoon()
	})
}

// publish makes a checkpoint of the epoch, and begins the next one.
func (p *process) publish() {
	c := p.checkpoint
	if !c.begun || p.slowUntil > p.world.now {
		return
	}
	p.folder.sync(p.folder.end()) // pages never know more than the log
	for shard := range p.engine {
		now, then := p.engine[shard], &c.states[shard]
		if now.generation != then.generation {
			continue
		}
		d := &p.folder.shards[shard]
		table := then.table
		if p.world.is(BatchIDsAhead) {
			table = now.table
		}
		if p.world.chance(2) {
			d.shardState = then.clone() // pages of later entries were not full
		} else {
			d.shardState = now.clone()
			d.applied, d.ahead = then.applied, max(now.applied, now.ahead)
		}
		d.table = table.clone()
	}
	p.folder.position = c.position
	p.world.trace.note("checkpoint", p.node.id, c.position)
	p.beginEpoch()
	force := p.world.chance(4)
	p.command(func() { p.durable(c.applied, force) })
	p.command(func() {
		p.command(func() { // after the round that has what the first one made the host say
			floor := min(c.position, p.floor())
			p.folder.sync(p.folder.end())
			p.folder.trim(floor)
		})
	})
}

// durable tells the host what a checkpoint has made durable.
func (p *process) durable(applied []uint64, force bool) {
	for _, shard := range p.host.Shards() {
		p.host.Durable(shard, applied[shard])
		status, err := p.host.Status(shard)
		if err != nil {
			continue
		}
		upto := applied[shard]
		if status.Role == shardmap.Witness {
			upto = status.Trim
		} else if !force && !status.SingleVoter {
			upto = max(min(upto, status.Trim), min(upto, p.places[shard].lost()))
		}
		if err := p.host.CompactTo(shard, upto); err != nil {
			p.world.fail(0, "%s: compact shard %d: %v", p.node.id, shard, err)
		}
	}
}

func (p *process) floor() int {
	floor := p.folder.end()
	for _, shard := range p.host.Shards() {
		status, err := p.host.Status(shard)
		if err != nil {
			continue
		}
		s := &p.places[shard]
		s.trim(status.Truncated.Index)
		if at, ok := s.from(status.Truncated.Index); ok {
			floor = min(floor, at)
		}
	}
	return floor
}

// fetch gets the files of a shard from the node that leads it.
func (p *process) fetch(need replica.SnapshotNeed) {
	if p.fetching[need.Shard] {
		return
	}
	p.fetching[need.Shard] = true
	done := func() { p.fetching[need.Shard] = false }
	var state shardState
	var meta []byte
	p.world.call(p, need.Leader, func(q *process) bool {
		if q.cleaning[need.Shard] {
			return false
		}
		state = q.engine[need.Shard].clone()
		m, err := q.host.SnapshotMeta(need.Shard, state.applied)
		meta = m.AppendTo(nil)
		return err == nil
	}, func(ok bool) {
		if !ok || p.world.chance(10) { // the stream was cut
			done()
			return
		}
		pinned, encoded := state.clone(), meta // the question may be asked twice
		p.after(p.world.between(1000, 300_000), func() { p.command(func() { p.install(need.Shard, &pinned, encoded, done) }) })
	})
	p.after(2_000_000, done) // the answer may have been lost
}

// install swaps the files of a shard. It is called between rounds.
func (p *process) install(shard uint16, state *shardState, encoded []byte, done func()) {
	meta, err := replica.ParseSnapshotMeta(encoded)
	if err != nil {
		p.world.fail(0, "meta of a snapshot: %v", err)
		return
	}
	if p.host.PrepareSnapshot(shard, meta) != nil {
		done()
		return
	}
	p.preparing[shard] = func() {
		if p.world.chance(12) {
			p.command(func() { p.host.AbortSnapshot(shard); done() })
			return
		}
		p.world.images++
		installed := state.clone()
		witness := false
		if status, err := p.host.Status(shard); err == nil && status.Role == shardmap.Witness {
			installed, witness = shardState{}, true // it needs the configuration only
		}
		installed.generation = p.engine[shard].generation + 1
		p.engine[shard] = &installed
		p.folder.shards[shard] = durableShard{shardState: installed.clone(), logPosition: p.folder.end()}
		p.world.trace.note("install", p.node.id, int(shard), int(meta.Index))
		p.command(func() {
			done()
			if _, err := p.host.Status(shard); err != nil || !witness && p.engine[shard].applied != meta.Index {
				return // removed meanwhile
			}
			p.dispatched[shard] = meta.Index
			if err := p.host.InstallSnapshot(shard, meta); err != nil {
				p.world.trace.note("install refused", p.node.id, int(shard))
			}
		})
	}
}

// recovered is what the log has of one group.
type recovered struct {
	known     bool
	state     replica.GroupState
	summary   replica.LogSummary
	pending   []pendingRecord
	committed uint64
}

type pendingRecord struct {
	at    int
	entry storage.Entry
}

// recover replays the log into the engine.
func (p *process) recover() []recovered {
	groups := make([]recovered, len(p.engine))
	for at := p.folder.first; at < p.folder.end(); at++ {
		record, _ := p.folder.record(at)
		p.note(record, at, false)
		e, err := storage.ParseEntry(record)
		if err != nil {
			continue
		}
		g := &groups[e.Shard]
		if e.Kind == storage.EntryGroupState {
			p.recoverState(g, &e)
			continue
		}
		g.note(&e)
		g.pending = append(g.pending, pendingRecord{at, e})
		if e.Gap == 0 {
			p.places[e.Shard] = places{}
		} else {
			p.places[e.Shard].add(e.Index, at)
		}
		g.committed = max(g.committed, e.Committed())
		p.replayCommitted(g)
	}
	return groups
}

func (g *recovered) note(e *storage.Entry) {
	s := &g.summary
	for len(g.pending) > 0 && g.pending[len(g.pending)-1].entry.Index >= e.Index {
		g.pending = g.pending[:len(g.pending)-1]
	}
	for len(s.Runs) > 0 && s.Runs[len(s.Runs)-1].First >= e.Index {
		s.Runs = s.Runs[:len(s.Runs)-1]
	}
	for len(s.Changes) > 0 && s.Changes[len(s.Changes)-1] >= e.Index {
		s.Changes = s.Changes[:len(s.Changes)-1]
	}
	s.Last = e.Index
	if len(s.Runs) == 0 || s.Runs[len(s.Runs)-1].Term != e.Term {
		s.Runs = append(s.Runs, replica.TermRun{First: e.Index, Term: e.Term})
	}
	if e.Kind == storage.EntryConfiguration {
		s.Changes = append(s.Changes, e.Index)
	}
}

func (p *process) recoverState(g *recovered, e *storage.Entry) {
	state, err := replica.ParseGroupState(e.Body)
	if err != nil {
		p.world.fail(0, "%s: state of shard %d: %v", p.node.id, e.Shard, err)
		return
	}
	if state.Removed || g.known && g.state.RaftID != state.RaftID && state.Era <= g.state.Era {
		*g = recovered{}
		p.places[e.Shard] = places{}
	}
	if state.Removed {
		return
	}
	g.known, g.state = true, state
	if at := state.Truncated; at.Index > g.summary.Last || at.Index > 0 && g.disagrees(at) {
		// Files were installed: what the log had before is of another history.
		g.summary, g.pending = replica.LogSummary{Last: state.Truncated.Index}, nil
		p.places[e.Shard] = places{}
	}
	g.committed = max(g.committed, state.Commit)
	p.replayCommitted(g)
}

// disagrees reports whether the log has another entry at a position.
func (g *recovered) disagrees(at replica.Position) bool {
	term := uint64(0)
	for _, run := range g.summary.Runs {
		if run.First <= at.Index {
			term = run.Term
		}
	}
	return term != 0 && term != at.Term
}

func (p *process) replayCommitted(g *recovered) {
	if !g.known {
		return // the log begins with entries that are kept for other members
	}
	n := 0
	for ; n < len(g.pending) && g.pending[n].entry.Index <= g.committed; n++ {
		if g.state.Role == shardmap.Witness {
			continue // it has a log and no data
		}
		p.world.oracle.committed(p, g.pending[n].entry.Shard, g.state.Era, &g.pending[n].entry)
		p.replay(g.pending[n].at, &g.pending[n].entry)
	}
	g.pending = g.pending[n:]
}

func (p *process) replay(at int, e *storage.Entry) {
	state := p.engine[e.Shard]
	if at < p.folder.shards[e.Shard].logPosition || e.Index <= state.applied {
		return
	}
	if e.Index != state.applied+1 {
		p.world.fail(8, "%s: the log of shard %d goes on with %d after %d", p.node.id, e.Shard, e.Index, state.applied)
	}
	p.applyEntry(state, e)
}
