package sim

import (
	"context"
	"errors"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// request is one part of an operation, as it reaches a node.
type request struct {
	shard    uint16
	id       series.BatchID
	batch    []byte
	era      uint32 // of the ids in the batch; 0: it has keys
	deletes  *deletion
	read     bool
	stale    bool
	series   uint64
	answered func(reply)
	done     bool
	router   string
}

// reply is what a node says to a request.
type reply struct {
	err     error
	era     uint32
	defined [seriesPerShard]cached
	values  [timesPerSeries]uint64
	nothing bool // a delete that found nothing
}

func (r *request) answer(p *process, answer reply) {
	if r.done || p.dead {
		return
	}
	r.done = true
	p.world.network.deliver(p.node.id, r.router, func() { r.answered(answer) })
}

// write is a request on its way through the log.
type write struct {
	commit.Write
	request *request
}

// receive takes a request of a router.
func (p *process) receive(r *request) {
	switch {
	case r.deletes != nil && p.world.is(DeleteUnconfirmed):
		p.command(func() { p.find(r) })
	case r.read || r.deletes != nil:
		p.inbox.reads = append(p.inbox.reads, &readWait{request: r})
		p.wake()
	case p.world.is(EraIgnored):
		p.propose(r, entry.Samples, r.batch, 0)
	default:
		p.propose(r, entry.Samples, r.batch, r.era)
	}
}

func (p *process) propose(r *request, kind entry.Kind, body []byte, era uint32) {
	w := &write{request: r}
	w.ID = r.id
	w.Add(kind, r.shard, body)
	w.Proposals[0].Era = era
	w.Done = func() { p.proposed(w) }
	w.Begin()
	p.inbox.writes = append(p.inbox.writes, w)
	p.wake()
}

// proposed answers a write that has its outcome.
func (p *process) proposed(w *write) {
	r := w.request
	if p.dead || r.done {
		return
	}
	answer := reply{err: w.FirstError(), era: p.era}
	if answer.err == nil {
		p.world.oracle.answer(p, r.shard, p.era, r.id)
		answer.defined = p.series(r.shard, p.era)
	}
	r.answer(p, answer)
}

// series returns the ids that the series of a shard have.
func (p *process) series(shard uint16, era uint32) (found [seriesPerShard]cached) {
	for i, key := range p.world.keys[shard] {
		ref, ok, err := p.engine.LookupSeries(key)
		if err != nil {
			p.fail(0, "look up series %d of shard %d: %v", i, shard, err)
		}
		if ok {
			found[i] = cached{true, uint64(ref.ID), era}
		}
	}
	return found
}

// forApplying returns an entry as the engine of a broken process sees it.
func (p *process) forApplying(e *entry.Entry) *entry.Entry {
	switch {
	case p.world.is(BatchIDsInMemory) && e.Kind == entry.Samples:
		batches := entry.ReadBatches(e.Body)
		body := entry.AppendTime(nil, batches.TimeMs)
		for batches.Next() {
			id := batches.ID
			id.Session += p.node.runs << 32 // no other run knows it
			body = append(entry.AppendBatchHeader(body, id, len(batches.Batch)), batches.Batch...)
		}
		return &entry.Entry{Kind: e.Kind, Shard: e.Shard, Term: e.Term, Index: e.Index, Gap: e.Gap, Body: body}
	case p.world.is(ForgetLate) && e.Kind == entry.Forget:
		if _, ids, err := entry.ParseForgetBody(e.Body); err == nil {
			body := entry.ForgetBody(e.Index-1, ids)
			return &entry.Entry{Kind: e.Kind, Shard: e.Shard, Term: e.Term, Index: e.Index, Gap: e.Gap, Body: body}
		}
	case p.world.is(DeleteWithoutID) && e.Kind == entry.NamedDelete:
		if d, err := parseDeletion(e.Body); err == nil {
			body := entry.DeleteBody([]uint32{uint32(d.name)}, timeMin+int64(d.first), timeMin+int64(d.last))
			return &entry.Entry{Kind: entry.Delete, Shard: e.Shard, Term: e.Term, Index: e.Index, Gap: e.Gap, Body: body}
		}
	}
	return e
}

// find looks for the series of a delete, and proposes it.
func (p *process) find(r *request) {
	found := p.series(r.shard, 0)
	if !found[r.series].known {
		r.answer(p, reply{nothing: true})
		return
	}
	d := *r.deletes
	d.name = found[r.series].id
	p.propose(r, entry.NamedDelete, d.body(p.clockMs()), 0)
}

// readWait is a read on its way at a node: of a router, or the node's own question whether it
// still leads.
type readWait struct {
	request   *request
	confirmed func(err error) // of the node's own
	index     uint64
	lives     uint64
}

func (r *readWait) refuse(p *process, err error) {
	if r.confirmed != nil {
		r.confirmed(err)
		return
	}
	r.request.answer(p, reply{err: err})
}

// readEarly serves what needs no confirmation.
func (p *process) readEarly(r *readWait) bool {
	if r.confirmed != nil {
		return false
	}
	shard := r.request.shard
	r.lives = p.machine.View(shard).Lives
	status, err := p.machine.Host().Status(shard)
	if p.world.is(WitnessServes) && err == nil && status.Role == shardmap.Witness {
		p.serve(r)
		return true
	}
	if !r.request.stale && !p.world.is(ReadUnconfirmed) {
		return false
	}
	switch {
	case err != nil:
		r.refuse(p, err)
	case status.Role != shardmap.Full || status.Installing || !r.request.stale && !status.Leads ||
		r.request.stale && (status.Leader == "" || p.applied[shard] < status.Commit):
		r.refuse(p, &replica.NotLeaderError{Shard: shard, Leader: status.Leader})
	default:
		p.serve(r)
	}
	return true
}

func (p *process) readAnswered(a *commit.ReadAnswer) {
	r := a.Read.For.(*readWait)
	if a.Err != nil {
		r.refuse(p, a.Err)
		return
	}
	r.index, r.lives = a.Index, p.machine.View(a.Read.Shard).Lives
	p.awaiting[a.Read.Shard] = append(p.awaiting[a.Read.Shard], r)
	p.releaseReads(a.Read.Shard)
}

// releaseReads serves the reads whose index is applied.
func (p *process) releaseReads(shard uint16) {
	left := p.awaiting[shard][:0]
	for _, r := range p.awaiting[shard] {
		if r.index > p.applied[shard] && !p.world.is(ReadBeforeApplied) && r.lives == p.machine.View(shard).Lives {
			left = append(left, r)
			continue
		}
		p.after(p.world.between(1, 200), func() { p.serve(r) })
	}
	clear(p.awaiting[shard][len(left):])
	p.awaiting[shard] = left
}

// serve reads the registers of a series.
func (p *process) serve(r *readWait) {
	switch {
	case r.lives != p.machine.View(r.request.shard).Lives:
		r.refuse(p, commit.ErrReplaced)
	case r.confirmed != nil:
		r.confirmed(nil)
	case r.request.deletes != nil:
		p.find(r.request)
	default:
		c := p.content(r.request.shard)
		var got [timesPerSeries]uint64
		copy(got[:], c.values[r.request.series*timesPerSeries:])
		r.request.answer(p, reply{values: got})
	}
}

// content reads all of a shard.
func (p *process) content(shard uint16) (c content) {
	c.keys = make([]uint8, p.engine.ShardStats(shard).Series)
	for name, id := range p.series(shard, 0) {
		if id.known {
			c.keys[id.id], c.ids[name] = uint8(name), id.id+1
		}
	}
	request := &scan.Request{
		Selector: scan.Selector{Metric: metric, Shards: []uint16{shard}}, FromMs: timeMin, ToMs: timeMin + timesPerSeries - 1, Parallel: 1,
	}
	err := p.engine.Scan(context.Background(), request, func(_ int, chunk *scan.Chunk) error {
		if id := uint64(chunk.Ref.ID); id >= c.known() || c.forgotten(id) {
			return errors.New("a series with an id that nobody has given")
		}
		name := uint64(c.keys[chunk.Ref.ID])
		for i, t := range chunk.Times {
			c.values[name*timesPerSeries+uint64(t-timeMin)] = uint64(chunk.Values[i])
		}
		return nil
	})
	if err != nil {
		p.fail(0, "read shard %d: %v", shard, err)
	}
	return c
}

// checkApplied compares a shard with what its log says.
func (p *process) checkApplied(shard uint16, era uint32) {
	at := p.engine.AppliedIndexes()[shard]
	if at < p.disk.ahead[shard] || p.dead {
		return
	}
	c := p.content(shard)
	p.world.oracle.checkApplied(p, shard, at, &c, era)
}

// applyAppends is the variant ApplyEarly: a leader applies what it has written.
func (p *process) applyAppends(start wal.Position) {
	for shard := range p.disk.images {
		status, err := p.machine.Host().Status(uint16(shard))
		if err != nil || !status.Leads {
			continue
		}
		g := &p.disk.images[shard]
		for e := g.at(p.engine.AppliedIndexes()[shard] + 1); e != nil && e.position >= start; e = g.at(e.entry.Index + 1) {
			_ = p.engine.Apply(0, &e.entry)
		}
	}
}
