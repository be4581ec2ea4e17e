package sim

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

var errReplaced = errors.New("the shard's replica was replaced")

// applySoon lets the applier go on.
func (p *process) applySoon() {
	if p.applying || len(p.applies) == 0 {
		return
	}
	p.applying = true
	delay := p.world.between(5, 100)
	if p.stallUntil > p.world.now {
		delay = p.stallUntil - p.world.now
	} else if p.world.chance(200) {
		delay = p.world.between(1000, 60_000) // a page that has to be written first
	}
	p.after(delay, func() {
		p.applying = false
		n := min(len(p.applies), 1+p.world.rng.IntN(8))
		items := p.applies[:n]
		p.applies = p.applies[n:]
		for i := range items {
			p.apply(&items[i])
		}
		p.applySoon()
	})
}

func (p *process) apply(item *toApply) {
	if item.mark != nil {
		item.mark()
		return
	}
	shard, state := item.entry.Shard, p.engine[item.entry.Shard]
	if item.entry.Index <= state.applied && p.world.is(ApplyEarly) {
		for _, r := range item.requests {
			r.answer(p, reply{copies: item.copies})
		}
		return
	}
	if item.entry.Index != state.applied+1 {
		p.world.fail(5, "%s: shard %d applies %d after %d", p.node.id, shard, item.entry.Index, state.applied)
		return
	}
	tooOld := p.applyEntry(state, &item.entry)
	p.world.oracle.checkApplied(p, shard, state, item.era)
	for i, r := range item.requests {
		answer := reply{copies: item.copies, era: item.era}
		if i < len(tooOld) && tooOld[i] {
			answer.err = series.ErrBatchOld
		} else if r.deletes == nil {
			answer.defined = state.content
		}
		if answer.err == nil && !p.world.is(AnswerEarly) {
			p.world.oracle.answer(p, shard, item.era, r.id)
		}
		r.answer(p, answer)
	}
	p.releaseReads(shard)
}

func (p *process) applyEntry(state *shardState, e *storage.Entry) []bool {
	tooOld, err := state.apply(e.Kind, e.Index, e.Body, p.world.options.Variant)
	if err != nil {
		p.world.fail(9, "%s: shard %d index %d: %v", p.node.id, e.Shard, e.Index, err)
	}
	return tooOld
}

// applyAppends is the variant ApplyEarly.
func (p *process) applyAppends() {
	for i := range p.round.Appends {
		a := &p.round.Appends[i]
		status, err := p.host.Status(a.Shard)
		if err != nil || !status.Leads || a.Index != p.engine[a.Shard].applied+1 {
			continue
		}
		e := storage.Entry{Kind: storage.EntryKind(a.Kind), Shard: a.Shard, Term: a.Term, Index: a.Index}
		for _, part := range a.Parts {
			e.Body = append(e.Body, part...)
		}
		p.applyEntry(p.engine[a.Shard], &e)
	}
}

// readWait is a read on its way at a node.
type readWait struct {
	request    *request
	index      uint64
	generation int
}

func (r *readWait) refuse(p *process, err error) { r.request.answer(p, reply{err: err}) }

func (p *process) startReads(reads []*readWait) {
	for _, r := range reads {
		shard := r.request.shard
		r.generation = p.engine[shard].generation
		status, err := p.host.Status(shard)
		if p.world.is(WitnessServes) && err == nil && status.Role == shardmap.Witness {
			p.serve(r)
			continue
		}
		if r.request.stale || p.world.is(ReadUnconfirmed) && r.request.confirmed == nil {
			switch {
			case err != nil:
				r.refuse(p, err)
			case status.Role != shardmap.Full || !r.request.stale && !status.Leads:
				r.refuse(p, &replica.NotLeaderError{Shard: shard, Leader: status.Leader})
			default:
				p.serve(r)
			}
			continue
		}
		p.lastToken++
		if err := p.host.Read(shard, p.lastToken); err != nil {
			r.refuse(p, err)
			continue
		}
		p.reads[p.lastToken] = r
	}
}

func (p *process) readReady(ready replica.ReadReady) {
	r, ok := p.reads[ready.Token]
	if !ok {
		return
	}
	delete(p.reads, ready.Token)
	r.index = ready.Index
	if r.request.confirmed != nil {
		r.request.confirmed(ready.Index)
		return
	}
	p.awaiting[ready.Shard] = append(p.awaiting[ready.Shard], r)
	p.releaseReads(ready.Shard)
}

// releaseReads serves the reads whose index is applied.
func (p *process) releaseReads(shard uint16) {
	left := p.awaiting[shard][:0]
	for _, r := range p.awaiting[shard] {
		if r.index > p.engine[shard].applied && !p.world.is(ReadBeforeApplied) {
			left = append(left, r)
			continue
		}
		p.after(p.world.between(1, 200), func() { p.serve(r) })
	}
	p.awaiting[shard] = left
}

// serve reads the registers of a series.
func (p *process) serve(r *readWait) {
	state := p.engine[r.request.shard]
	if state.generation != r.generation {
		r.refuse(p, errReplaced)
		return
	}
	if r.request.deletes != nil {
		p.find(r.request)
		return
	}
	var got [timesPerSeries]uint64
	copy(got[:], state.values[r.request.series*timesPerSeries:])
	r.request.answer(p, reply{values: got})
}
