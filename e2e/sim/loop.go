package sim

import (
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

func (p *process) wake() {
	if !p.scheduled && !p.dead {
		p.scheduled = true
		p.after(p.world.between(5, 60), p.turn)
	}
}

// command has something done between rounds. It is never done by a process that is dead.
func (p *process) command(do func()) {
	p.inbox.commands = append(p.inbox.commands, do)
	p.wake()
}

// turn takes what waits and begins a round, if there is one.
func (p *process) turn() {
	p.scheduled = false
	if p.writing != nil || len(p.free) == 0 {
		return // finish, or who applies the last entry, looks again
	}
	in := p.inbox
	p.inbox = inbox{}
	for _, command := range in.commands {
		if command(); p.dead {
			return
		}
		p.perform()
	}
	input := commit.Input{NowMs: p.clockMs(), Ticks: min(in.ticks, 2), Applied: p.applied, Envelopes: in.envelopes, Synced: in.synced}
	for _, w := range in.writes {
		input.Writes = append(input.Writes, &w.Write)
	}
	for _, r := range in.reads {
		if !p.readEarly(r) {
			input.Reads = append(input.Reads, commit.Read{Shard: r.request.shard, For: r})
		}
	}
	if in.ticks > 0 {
		p.look()
	}
	r := p.free[0]
	ready, err := p.machine.Step(&input, r.Round)
	if err != nil {
		p.fail(0, "step: %v", err)
		return
	}
	p.perform()
	if p.world.is(AnswerEarly) {
		for _, w := range in.writes {
			w.request.answer(p, reply{})
		}
	}
	if !ready {
		return
	}
	p.free = p.free[1:]
	p.writing, p.written = r, false
	p.world.trace.hashed("round", p.node.id, r.Buffer.Records(), r.Buffer.Len())
	p.send(r.Early())
	if p.world.is(LateBeforeSync) {
		p.send(r.Late())
	}
	p.after(p.world.between(10, 120)+max(0, p.slowUntil-p.world.now), p.write)
}

// look reports to the oracle who leads.
func (p *process) look() {
	host := p.machine.Host()
	for _, shard := range host.Shards() {
		status, err := host.Status(shard)
		if err != nil {
			continue
		}
		if status.Fault != nil {
			p.fail(6, "shard %d has stopped: %v", shard, status.Fault)
		}
		p.world.oracle.configured(&status)
		p.voters[shard].see(&status)
		if status.Leads {
			p.world.oracle.leads(p, shard, status.Era, status.Term, status.RaftID)
		}
	}
}

// write puts the round down.
func (p *process) write() {
	r, start, err := p.writing, wal.Position(0), error(nil)
	if r.Buffer.Records() > 0 {
		start, err = p.append(&r.Buffer)
	}
	if err != nil {
		p.fail(0, "write: %v", err)
		return
	}
	p.written = true
	if p.world.is(ApplyEarly) {
		p.applyAppends(start)
	}
	o, number := &p.world.options, r.Number()
	entries, states := o.Always && r.HasEntries(), r.HasStates()
	switch {
	case entries && p.world.is(EntriesNotSynced), !entries && p.world.is(StatesNotSynced):
		if states && o.statesLater() {
			p.inbox.synced = number
		}
	case entries || states && !o.statesLater():
		p.sync(0, func() {
			p.inbox.synced = number
			p.finish(start)
		})
		return
	case states:
		p.syncStates(func() {
			p.inbox.synced = max(p.inbox.synced, number)
			p.wake()
		})
	}
	p.finish(start)
}

// finish does what may only be done when the round is written.
func (p *process) finish(start wal.Position) {
	r := p.writing
	p.machine.Written(r.Round, start)
	if !p.world.is(LateBeforeSync) {
		p.send(r.Late())
	}
	p.perform()
	if p.world.is(EpochStale) {
		r.Epoch = 0
	}
	entries := r.Entries[0]
	for i := range entries {
		e := &entries[i].Entry
		if p.machine.View(e.Shard).Witness {
			p.fail(12, "the witness of shard %d is to apply", e.Shard)
		}
		if e.Kind == entry.Configuration {
			if status, err := p.machine.Host().Status(e.Shard); err == nil {
				p.voters[e.Shard].see(&status)
			}
		}
		era := p.machine.Host().Era(e.Shard)
		p.world.oracle.committed(p, e.Shard, era, e)
		p.items = append(p.items, item{round: r, entry: &entries[i], era: era})
	}
	p.writing = nil
	if r.left = len(entries); r.left == 0 {
		p.free = append(p.free, r)
	}
	p.applySoon()
	p.wake()
}

func (p *process) send(out []replica.Outgoing) {
	for i := range out {
		p.world.network.envelope(p, out[i].To, out[i].Bytes)
	}
}

// applySoon lets the applier go on.
func (p *process) applySoon() {
	if p.applying || len(p.items) == 0 {
		return
	}
	p.applying = true
	delay := p.world.between(5, 100)
	if p.stallUntil > p.world.now {
		delay = p.stallUntil - p.world.now
	} else if !p.world.options.Timed && p.world.chance(200) {
		delay = p.world.between(1000, 60_000) // a page that has to be written first
	}
	p.after(delay, func() {
		p.applying = false
		for range min(len(p.items), 1+p.world.rng.IntN(8)) {
			next := p.items[0]
			if p.items = p.items[1:]; next.mark != nil {
				next.mark()
			} else {
				p.apply(&next)
			}
			if p.dead {
				return
			}
		}
		p.applySoon()
	})
}

func (p *process) apply(next *item) {
	e := &next.entry.Entry
	shard := e.Shard
	var refused *entry.BatchError
	if !p.world.is(ApplyEarly) || e.Index > p.engine.AppliedIndexes()[shard] {
		err := p.engine.Apply(next.round.Epoch, p.forApplying(e))
		if p.dead {
			return
		}
		if err != nil && !errors.As(err, &refused) {
			p.fail(5, "shard %d entry %d: %v", shard, e.Index, err)
			return
		}
	}
	p.applied[shard] = max(p.applied[shard], e.Index)
	if p.world.chance(4) {
		p.checkApplied(shard, next.era)
	}
	p.era = next.era
	for i, s := range next.entry.Shares {
		var err error
		if refused != nil {
			if at := slices.Index(refused.Batches, i); at >= 0 {
				err = refused.Errs[at]
			}
		}
		s.Finish(next.entry.Copies, err)
	}
	p.era = 0
	if next.round.left--; next.round.left == 0 {
		p.free = append(p.free, next.round)
		p.wake()
	}
	p.releaseReads(shard)
}

// perform does what follows from what the machine was told.
func (p *process) perform() {
	out := p.machine.Output()
	for _, a := range out.Answers {
		a.Share.Finish(0, a.Err)
	}
	for _, a := range out.Reads {
		p.readAnswered(&a)
	}
	for _, need := range out.Fetch {
		p.task("fetch", need.Shard, func() { p.install(need) })
	}
	for _, shard := range out.Drop {
		p.task("drop", shard, func() { p.discard(shard) })
	}
	for _, q := range out.Ask {
		if p.world.is(DropOnMap) {
			p.command(func() { p.machine.Left(&q) })
			continue
		}
		p.task("ask", q.Shard, func() { p.askMembers(&q) })
	}
	for _, shard := range out.Prepared {
		s := p.swaps[shard]
		if s.prepared = true; s.wake != nil {
			s.wake()
		}
	}
	for _, shard := range out.Cancel {
		s := p.swaps[shard]
		if s.cancel(); s.wake != nil {
			s.wake()
		}
	}
	out.Reset()
}
