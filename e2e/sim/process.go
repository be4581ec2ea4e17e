package sim

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// node is a machine with its present data folder, and the process that runs there.
type node struct {
	id      string
	zone    string
	folder  *folder
	process *process // nil: none runs
	runs    uint64
	rate    float64 // of its clock
	offset  int64   // ms that its clock is wrong
}

// process is one run of a node: the loop around the Host, and all that dies with it.
type process struct {
	world       *World
	node        *node
	folder      *folder
	host        *replica.Host
	store       *memstore.Store
	dead        bool
	pausedUntil int64
	slowUntil   int64 // its disk takes nothing
	stallUntil  int64 // its appliers wait

	inbox     inbox
	scheduled bool
	writing   bool
	round     replica.Round
	relog     bool
	relogging []replica.GroupState
	records   [][]byte
	appendsAt int // number of the first Append among the records

	places     []places
	engine     []*shardState
	dispatched []uint64
	cleaning   []bool
	fetching   []bool
	preparing  map[uint16]func() // swaps of files that wait until the log says so
	rows       []shardmap.Row
	waiting    []shardQueue
	tokens     map[uint64]inflight
	reads      map[uint64]*readWait
	lastToken  uint64
	lent       [][]byte // bodies of proposals since the last round
	ticks      int
	terms      []uint64 // greatest seen, for the checks

	applies  []toApply
	applying bool
	awaiting [][]*readWait // by shard: confirmed, not applied yet

	checkpoint checkpoint
	unsettled  bool
	registered shardmap.Registration
}

// inbox is what waits for the loop.
type inbox struct {
	envelopes []envelope
	ticks     int
	commands  []func()
	writes    []*request
	reads     []*readWait
}

type envelope struct {
	from  string
	bytes []byte
}

// shardQueue has the writes of a shard that are in no entry yet.
type shardQueue struct {
	requests []*request
	underWay int
}

// inflight is an entry that was proposed here.
type inflight struct {
	shard    uint16
	requests []*request
}

// toApply is a committed entry, or a mark between entries.
type toApply struct {
	entry    storage.Entry
	era      uint32
	requests []*request
	copies   int
	mark     func()
}

// after lets the process do something later, unless it is dead then.
func (p *process) after(delay int64, do func()) {
	p.world.after(delay, func() { p.run(do) })
}

func (p *process) run(do func()) {
	switch {
	case p.dead:
	case p.pausedUntil > p.world.now:
		p.world.after(p.pausedUntil-p.world.now+p.world.between(0, 50), func() { p.run(do) })
	default:
		do()
	}
}

func (p *process) wake() {
	if !p.scheduled {
		p.scheduled = true
		p.after(p.world.between(5, 60), p.turn)
	}
}

func (p *process) command(do func()) {
	p.inbox.commands = append(p.inbox.commands, do)
	p.wake()
}

// turn takes what waits and begins a round, if there is one.
func (p *process) turn() {
	p.scheduled = false
	if p.writing {
		return // finish looks again
	}
	p.take()
	if !p.host.Ready(&p.round) && len(p.relogging) == 0 {
		p.reuse()
		return
	}
	p.world.trace.hashed("round", p.node.id, len(p.round.States), len(p.round.Appends), len(p.round.Committed))
	p.send(p.round.Early)
	p.frame()
	if p.world.is(ApplyEarly) {
		p.applyAppends()
	}
	if p.world.is(LateBeforeSync) {
		p.send(p.round.Late)
	}
	p.writing = true
	p.after(p.world.between(10, 120)+max(0, p.slowUntil-p.world.now), p.written)
}

func (p *process) take() {
	in := p.inbox
	p.inbox = inbox{}
	for _, command := range in.commands {
		command()
	}
	for _, e := range in.envelopes {
		if err := p.host.Receive(e.from, e.bytes); err != nil {
			p.world.fail(0, "%s: an envelope of %s: %v", p.node.id, e.from, err)
		}
	}
	for range min(in.ticks, 2) {
		p.tick()
	}
	p.startReads(in.reads)
	for _, w := range in.writes {
		p.waiting[w.shard].requests = append(p.waiting[w.shard].requests, w)
	}
	p.propose()
	if p.relog {
		p.relog = false
		for _, shard := range p.host.Shards() {
			state, err := p.host.State(shard)
			if err != nil {
				p.world.fail(0, "%s: state of shard %d: %v", p.node.id, shard, err)
				continue
			}
			p.relogging = append(p.relogging, state)
		}
	}
}

// frame makes the records of the round.
func (p *process) frame() {
	p.records = nil
	for _, states := range [2][]replica.GroupState{p.relogging, p.round.States} {
		for i := range states {
			header := storage.Entry{Kind: storage.EntryGroupState, Shard: states[i].Shard}
			p.records = append(p.records, states[i].AppendTo(header.AppendHeader(nil)))
		}
	}
	p.appendsAt = len(p.records)
	for i := range p.round.Appends {
		a := &p.round.Appends[i]
		e := storage.Entry{Kind: storage.EntryKind(a.Kind), Shard: a.Shard, Term: a.Term, Index: a.Index, Gap: p.gap(a)}
		p.records = append(p.records, append(e.AppendHeader(nil), slices.Concat(a.Parts...)...))
	}
	p.relogging = nil
}

// gap is what a record says of the commit. Nothing but an entry of a lone group has
// the gap 0: such entries are not kept for others.
func (p *process) gap(a *replica.Append) uint64 {
	if a.Index == a.Commit && !p.lone(a.Shard) {
		return 1
	}
	return a.Index - a.Commit
}

// written puts the records down.
func (p *process) written() {
	start := p.folder.end()
	p.folder.write(p.records)
	for i := range p.round.Appends {
		a := &p.round.Appends[i]
		if p.gap(a) == 0 {
			p.places[a.Shard] = places{}
		} else {
			p.places[a.Shard].add(a.Index, start+p.appendsAt+i)
		}
	}
	for i, record := range p.records {
		p.note(record, start+i, true)
	}
	p.records = nil
	o := &p.world.options
	if o.Always && len(p.round.Appends) > 0 || p.round.Sync && !o.statesLater() {
		p.sync(0, p.finish)
		return
	}
	if p.round.Sync {
		number := p.round.Number
		p.syncStates(func() { p.command(func() { p.host.Synced(number) }) })
	}
	p.finish()
}

// sync makes durable what is written, and then does something.
func (p *process) sync(delay int64, do func()) {
	end := p.folder.end()
	p.after(delay+p.world.between(50, 800), func() {
		p.folder.sync(end)
		do()
	})
}

// syncStates is sync of states while the loop goes on.
func (p *process) syncStates(do func()) {
	if p.world.is(StatesNotHeld) {
		do() // what is written becomes durable with an entry, or within a second
		return
	}
	p.sync(max(0, p.slowUntil-p.world.now), do)
}

// note keeps the image of the log, for the checks; of records that are new, or read
// back at the start.
func (p *process) note(record []byte, position int, isNew bool) {
	e, err := storage.ParseEntry(record)
	if err != nil {
		p.world.fail(0, "%s: a record of its own: %v", p.node.id, err)
		return
	}
	if e.Kind != storage.EntryGroupState {
		p.folder.images[e.Shard].add(&e, position)
		return
	}
	state, err := replica.ParseGroupState(e.Body)
	if err != nil {
		p.world.fail(0, "%s: a state of its own: %v", p.node.id, err)
		return
	}
	id := replicaID{e.Shard, state.RaftID}
	if state.Removed {
		p.folder.images[e.Shard] = image{}
		p.folder.spent[e.Shard] = max(p.folder.spent[e.Shard], state.RaftID)
		p.world.oracle.retired[id] = true
		return
	}
	if isNew {
		p.world.oracle.made(p, e.Shard, state.RaftID)
	}
	if g := &p.folder.images[e.Shard]; g.raftID != state.RaftID {
		if g.raftID != 0 && state.Era <= g.era { // else the log began with entries, or goes on in another era
			*g = image{}
		}
		g.raftID, p.terms[e.Shard] = state.RaftID, 0
	}
	p.folder.images[e.Shard].era = state.Era
	if state.Term < p.terms[e.Shard] {
		p.world.fail(7, "%s: shard %d raft id %d is in term %d after %d", p.node.id, e.Shard, state.RaftID, state.Term, p.terms[e.Shard])
	}
	p.terms[e.Shard] = state.Term
	g := &p.folder.images[e.Shard]
	if last, _ := g.last(); state.Truncated.Index > last {
		*g = image{raftID: state.RaftID, era: state.Era, first: state.Truncated.Index + 1}
	}
}

// finish does what may only be done when the round is written.
func (p *process) finish() {
	p.writing = false
	if p.dead {
		return
	}
	p.host.Advance(&p.round)
	if p.world.options.Always && len(p.round.Appends) > 0 {
		p.host.Synced(p.round.Number)
	}
	if !p.world.is(LateBeforeSync) {
		p.send(p.round.Late)
	}
	for _, ready := range p.round.Reads {
		p.readReady(ready)
	}
	for _, failure := range p.round.Failed {
		p.failed(failure)
	}
	for _, need := range p.round.Snapshots {
		p.fetch(need)
	}
	p.dispatch()
	p.reuse()
	for _, shard := range p.round.Prepared {
		if swap := p.preparing[shard]; swap != nil {
			delete(p.preparing, shard)
			p.applies = append(p.applies, toApply{mark: swap})
			p.applySoon()
		}
	}
	p.wake()
}

// reuse overwrites what was proposed, as a node does that uses its memory again.
func (p *process) reuse() {
	for _, body := range p.lent {
		clear(body)
	}
	p.lent = nil
}

func (p *process) send(out []replica.Outgoing) {
	for i := range out {
		p.world.network.envelope(p, out[i].To, out[i].Bytes)
	}
}

// dispatch gives the committed entries to the applier.
func (p *process) dispatch() {
	for i := range p.round.Committed {
		c := &p.round.Committed[i]
		status, err := p.host.Status(c.Shard)
		if err != nil {
			continue // removed meanwhile
		}
		if status.Role == shardmap.Witness {
			p.world.fail(12, "%s: the witness of shard %d is to apply", p.node.id, c.Shard)
		}
		p.dispatched[c.Shard] = c.Index
		item := toApply{copies: c.Copies, era: status.Era, entry: storage.Entry{Kind: storage.EntryKind(c.Kind), Shard: c.Shard,
			Term: c.Term, Index: c.Index, Body: slices.Concat(c.Parts...)}}
		p.world.oracle.committed(p, c.Shard, status.Era, &item.entry)
		if c.Token != 0 {
			item.requests = p.tokens[c.Token].requests
			delete(p.tokens, c.Token)
			p.waiting[c.Shard].underWay--
		}
		p.applies = append(p.applies, item)
	}
	p.applySoon()
}

func (p *process) failed(f replica.Failure) {
	if read, ok := p.reads[f.Token]; ok {
		delete(p.reads, f.Token)
		read.refuse(p, f.Err)
		return
	}
	entry, ok := p.tokens[f.Token]
	if !ok {
		return
	}
	delete(p.tokens, f.Token)
	p.waiting[f.Shard].underWay--
	for _, r := range entry.requests {
		r.answer(p, reply{err: f.Err})
	}
}

func (p *process) tick() {
	for _, shard := range p.host.Shards() {
		p.host.Applied(shard, p.engine[shard].applied)
	}
	p.host.Tick()
	if p.ticks++; p.ticks%4 == 0 {
		p.stepAll()
	}
}

// propose makes entries of what waits for shards that have none under way.
func (p *process) propose() {
	for shard := range p.waiting {
		q := &p.waiting[shard]
		for len(q.requests) > 0 && (q.underWay == 0 || p.lone(uint16(shard))) {
			n := 1
			for q.requests[0].deletes == nil && n < len(q.requests) && q.requests[n].deletes == nil && n < 8 {
				n++
			}
			requests := slices.Clone(q.requests[:n])
			q.requests = q.requests[n:]
			p.lastToken++
			kind, body := entryOf(requests, p.clockMs())
			err := p.host.Propose(uint16(shard), uint8(kind), [][]byte{body}, p.lastToken)
			if err != nil {
				for _, r := range requests {
					r.answer(p, reply{err: err})
				}
				continue
			}
			p.lent = append(p.lent, body)
			q.underWay++
			p.tokens[p.lastToken] = inflight{uint16(shard), requests}
			if p.world.is(AnswerEarly) {
				for _, r := range requests {
					r.answer(p, reply{})
				}
			}
		}
	}
}

func entryOf(requests []*request, timeMs int64) (storage.EntryKind, []byte) {
	if d := requests[0].deletes; d != nil {
		return storage.EntryDelete, d.body()
	}
	body := storage.AppendEntryTime(nil, timeMs)
	for _, r := range requests {
		body = storage.AppendBatchHeader(body, r.id, len(r.batch))
		body = append(body, r.batch...)
	}
	return storage.EntrySamples, body
}

func (p *process) lone(shard uint16) bool {
	status, err := p.host.Status(shard)
	return err == nil && status.SingleVoter
}

func (p *process) eraOf(shard uint16) uint32 {
	status, _ := p.host.Status(shard)
	return status.Era
}

func (p *process) clockMs() int64 {
	return 1_700_000_000_000 + p.node.offset + int64(float64(p.world.now)*p.node.rate)/1000
}
