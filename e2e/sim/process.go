package sim

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// process is one run of a node: a driver of the product's Machine, log, engine and transfer
// of files, as package node is one with goroutines.
type process struct {
	world    *World
	node     *node
	disk     *disk
	engine   *storage.Engine
	log      *wal.Log
	machine  *commit.Machine
	transfer *transfer.Service
	store    *memstore.Store

	dead, closed bool
	pausedUntil  int64
	slowUntil    int64 // its disk takes nothing
	stallUntil   int64 // its appliers wait
	cutAfter     int   // operations on the disk until the process ends; 0: it does not
	cutPower     bool

	inbox     inbox
	scheduled bool
	free      []*round
	writing   *round // nil: none is
	written   bool   // it is in the file

	applied  []uint64 // by shard
	items    []item
	applying bool
	era      uint32        // of the entry that is being applied
	awaiting [][]*readWait // by shard: confirmed, not applied yet

	swaps  map[uint16]*swapWait
	busy   map[taskName]bool
	tasks  int // under way
	wakers map[int]func()
	waker  int

	epoch      epochStart
	seen       *shardmap.Map // the newest, of which the store was told before it is adopted
	settling   int           // shards that are being confirmed
	registered shardmap.Registration
	terms      []uint64     // greatest seen, for the checks
	voters     []votersSeen // by shard, for the checks
}

// round is a commit.Round on its way through log and appliers.
type round struct {
	*commit.Round
	left int // entries that are not applied
}

// inbox is what waits for the loop.
type inbox struct {
	envelopes []commit.Envelope
	ticks     int
	commands  []func()
	writes    []*write
	reads     []*readWait
	synced    uint64
}

// item is an entry to apply, or a mark between entries.
type item struct {
	round *round
	entry *commit.ToApply
	era   uint32
	mark  func()
}

type swapWait struct {
	cancel   func()
	prepared bool
	wake     func()
}

func (p *process) fail(invariant int, format string, args ...any) {
	if !p.dead {
		p.world.fail(invariant, "%s: %s", p.node.id, fmt.Sprintf(format, args...))
	}
}

// counts reports whether an operation on the disk is one of those before which the power may
// be cut. Those of the log are left out: some come from a goroutine of its own.
func (p *process) counts(op *vfs.Op) bool {
	if dir := path.Dir(op.Name); dir == "data/log" || op.Name == "data/log" {
		return false
	}
	switch op.Kind {
	case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove, vfs.OpSyncDir:
		return true
	default:
		return false
	}
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

// append writes to the log, and notes what it returns.
func (p *process) append(buffer *wal.Buffer) (wal.Position, error) {
	start, _, err := p.log.Write(buffer)
	if err != nil {
		return 0, err
	}
	return start, p.log.Replay(start, func(at, _ wal.Position, record []byte) error {
		p.note(record, at, true)
		return nil
	})
}

// sync makes durable what is written, and then does something.
func (p *process) sync(delay int64, do func()) {
	p.after(delay+int64(p.world.options.SyncMs)*1000+p.world.between(50, 800), func() {
		if err := p.syncLog(); err != nil {
			p.fail(0, "sync: %v", err)
			return
		}
		do()
	})
}

func (p *process) syncLog() error {
	_, err := p.log.Sync()
	p.disk.synced = max(p.disk.synced, p.log.Synced())
	return err
}

// syncForEngine is called by the engine before a manifest counts pages.
func (p *process) syncForEngine() error {
	if p.world.is(CheckpointAheadOfLog) {
		return nil
	}
	return p.syncLog()
}

// syncStates is sync of states while the loop goes on.
func (p *process) syncStates(do func()) {
	if p.world.is(StatesNotHeld) {
		do() // what is written becomes durable with an entry, or within a second
		return
	}
	p.sync(max(0, p.slowUntil-p.world.now), do)
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

func (p *process) clockMs() int64 {
	return timeMin + p.node.offset + int64(float64(p.world.now)*p.node.rate)/1000
}
