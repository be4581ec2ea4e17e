package nodesim

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// node is a machine with its disk, and the process that runs there.
type node struct {
	world       *world
	id          string
	disk        *vfs.MemFS
	incarnation string
	process     *process // nil: none runs
}

func (n *node) member(raftID uint64) shardmap.Member {
	return shardmap.Member{Node: n.id, Incarnation: n.incarnation, RaftID: raftID, Role: shardmap.Full}
}

// process is one run of a node: a driver of the product's Machine, its log, its engine and
// its transfer of files, with the world's clock and network.
type process struct {
	world     *world
	node      *node
	engine    *storage.Engine
	log       *wal.Log
	machine   *commit.Machine
	transfer  *transfer.Service
	round     *commit.Round
	dead      bool
	slowUntil int64 // its disk takes nothing

	scheduled, writing bool
	ticks              int
	envelopes          []commit.Envelope
	writes             []*commit.Write
	reads              []commit.Read
	commands           []command
	applied            []uint64
	items              []item
	applying           bool
	waits              []func() bool // for what is applied: true when over
	swaps              map[uint16]*swapWait
	busy               map[string]bool // tasks, by what they do
	tasks              int             // under way
	wakers             map[int]func()  // of tasks that wait
	waker              int

	epoch checkpoint
}

type command struct {
	run  func()
	done func(ran bool)
}

// item is an entry to apply, or a mark between entries.
type item struct {
	epoch uint16
	entry commit.ToApply
	mark  func()
}

type swapWait struct {
	cancel   func()
	prepared bool
	wake     func()
}

// start runs the product's recovery on the disk, unless a process runs.
func (n *node) start() {
	w := n.world
	if n.process != nil || w.err != nil || w.over {
		return
	}
	p := &process{world: w, node: n, round: commit.NewRound(shards, 1), swaps: map[uint16]*swapWait{}, busy: map[string]bool{}, wakers: map[int]func(){}}
	if err := p.open(); err != nil {
		w.fail("%s does not start: %v", n.id, err)
		p.close()
		return
	}
	n.process, n.incarnation = p, p.engine.Incarnation()
	w.stats.Starts++
	w.note("start "+n.id, p.applied...)
	w.every(tickMicros, tickMicros, p.alive(func() { p.ticks = min(p.ticks+1, 2); p.wake() }))
	w.every(200_000, 900_000, p.alive(p.maintain))
	for _, other := range w.nodes {
		p.peer(other, true)
	}
	if w.rows != nil {
		p.adopt(w.rows)
	}
}

func (p *process) alive(do func()) func() {
	return func() {
		if !p.dead {
			do()
		}
	}
}

func (p *process) open() (err error) {
	n, w := p.node, p.world
	logger := slog.New(slog.DiscardHandler)
	p.engine, err = storage.Open(storage.Options{
		FS: n.disk, Dir: "data", Shards: shards, ExtentBytes: 64 << 10, GenerationBytesMax: 1 << 20, Logger: logger,
		SyncLog: func() error { _, err := p.log.Sync(); return err },
	})
	if err != nil {
		return err
	}
	p.log, err = wal.Open(wal.Options{FS: n.disk, Dir: "data/log", FileBytes: 64 << 10, RecycleMax: -1})
	if err != nil {
		return err
	}
	recovered := commit.NewRecovery(p.engine, p.log, shards, logger)
	err = p.log.Replay(0, func(at, _ wal.Position, record []byte) error {
		if record = w.breakRecord(record); record == nil {
			return nil
		}
		return recovered.Take(at, record)
	})
	if err != nil {
		return err
	}
	if err := recovered.Doubt(nil); err != nil {
		return err // it was synced before each answer
	}
	p.machine, err = commit.New(commit.Config{Host: replica.Config{
		Node: n.id, Incarnation: p.engine.Incarnation(), Run: w.rng.Uint64(), Seed: w.rng.Uint64(), HibernateTicks: 8, CacheBytesMax: 256,
	}, Shards: shards, Log: p.log, Logger: logger}, recovered)
	if err != nil {
		return err
	}
	p.transfer = transfer.New(transfer.Options{Node: n.id, Engine: p.engine, Loop: loopFace{p}, Files: files{p}, Inquiry: inquiry{p}, Clock: time.Now, Logger: logger})
	p.applied = p.machine.Dispatched()
	p.epoch = checkpoint{wal.Position(p.engine.LogPosition()), p.engine.AppliedIndexes(), 0}
	p.perform()
	return p.trustIDs()
}

// end kills the process. A power cut takes what was not synced.
func (n *node) end(power bool) {
	p := n.process
	if p == nil {
		return
	}
	p.dead, n.process = true, nil
	if power {
		n.disk = n.disk.CrashClone(vfs.CrashOptions{})
		n.world.stats.PowerCuts++
	} else {
		n.disk = n.disk.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	}
	n.world.note("end "+n.id, uint64(p.log.End()))
	for _, other := range n.world.nodes {
		p.peer(other, false)
	}
	for _, s := range p.swaps {
		s.cancel()
	}
	for _, at := range sorted(p.wakers) {
		p.wakers[at]()
	}
	p.close()
}

func sorted(m map[int]func()) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// close lets go of the files when no task of the dead process is under way any more.
func (p *process) close() {
	if p.tasks > 0 {
		return
	}
	if p.log != nil {
		_ = p.log.Close()
	}
	if p.engine != nil {
		_ = p.engine.Close()
	}
}

// peer tells another node's process that connections to this one stand, or broke.
func (p *process) peer(other *node, up bool) {
	if q := other.process; q != nil && q != p {
		q.command(func() {
			if up {
				q.machine.Host().PeerUp(p.node.id)
			} else {
				q.machine.Host().PeerDown(p.node.id)
			}
		}, nil)
	}
}

func (p *process) adopt(m *shardmap.Map) {
	p.command(func() { p.machine.Adopt(m) }, nil)
}

func (p *process) command(run func(), done func(ran bool)) {
	if p.dead {
		if done != nil {
			done(false)
		}
		return
	}
	p.commands = append(p.commands, command{run, done})
	p.wake()
}

func (p *process) wake() {
	if !p.scheduled && !p.dead {
		p.scheduled = true
		p.world.after(p.world.between(5, 60), p.alive(p.turn))
	}
}

// turn takes what waits and begins a round, if there is one.
func (p *process) turn() {
	if p.scheduled = false; p.writing {
		return // finish looks again
	}
	commands := p.commands
	p.commands = nil
	for _, c := range commands {
		c.run()
		p.perform()
		if c.done != nil {
			c.done(true)
		}
	}
	in := commit.Input{NowMs: 1_700_000_000_000 + p.world.now/1000, Ticks: p.ticks, Applied: p.applied, Envelopes: p.envelopes, Reads: p.reads, Writes: p.writes}
	p.ticks, p.envelopes, p.reads, p.writes = 0, nil, nil, nil
	ready, err := p.machine.Step(&in, p.round)
	if err != nil {
		p.world.fail("%s: %v", p.node.id, err)
		return
	}
	if p.perform(); !ready {
		return
	}
	p.send(p.round.Early())
	p.writing = true
	p.world.after(p.world.between(10, 120)+max(0, p.slowUntil-p.world.now), p.alive(p.write))
}

// write puts the round down, and syncs it before anything rests on it.
func (p *process) write() {
	start, err := wal.Position(0), error(nil)
	if p.round.Buffer.Records() > 0 {
		start, _, err = p.log.Write(&p.round.Buffer)
	}
	delay := int64(0)
	if err == nil && (p.round.HasEntries() || p.round.HasStates()) {
		delay = p.world.between(50, 800)
	}
	if err != nil {
		p.world.fail("%s: %v", p.node.id, err)
		return
	}
	p.world.after(delay, p.alive(func() {
		if delay > 0 && !p.world.is(EntriesNotSynced) {
			if _, err := p.log.Sync(); err != nil {
				p.world.fail("%s: %v", p.node.id, err)
			}
		}
		p.finish(start)
	}))
}

func (p *process) finish(start wal.Position) {
	p.machine.Written(p.round, start)
	p.send(p.round.Late())
	p.perform()
	epoch := p.round.Epoch
	if p.world.is(EpochStale) {
		epoch = 0
	}
	for _, e := range p.round.Entries[0] { // its memory is used again by the next round
		e.Entry.Body, e.Shares = slices.Clone(e.Entry.Body), slices.Clone(e.Shares)
		p.items = append(p.items, item{epoch: epoch, entry: e})
	}
	p.writing = false
	p.applySoon()
	p.wake()
}

func (p *process) send(out []replica.Outgoing) {
	w := p.world
	for i := range out {
		to, bytes := w.node(out[i].To), slices.Clone(out[i].Bytes)
		if w.cut[[2]string{p.node.id, to.id}] || w.chance(200) {
			continue
		}
		w.after(w.between(20, 400), func() {
			if q := to.process; q != nil {
				q.envelopes = append(q.envelopes, commit.Envelope{From: p.node.id, Bytes: bytes})
				q.wake()
			}
		})
	}
}

func (p *process) applySoon() {
	if p.applying || len(p.items) == 0 {
		return
	}
	p.applying = true
	delay := p.world.between(5, 100)
	if p.world.chance(50) {
		delay = p.world.between(1000, 60_000) // a page that has to be written first
	}
	p.world.after(delay, p.alive(func() {
		p.applying = false
		for range min(len(p.items), 1+p.world.rng.IntN(8)) {
			next := p.items[0]
			if p.items = p.items[1:]; next.mark != nil {
				next.mark()
			} else {
				p.apply(&next)
			}
		}
		p.waits = slices.DeleteFunc(p.waits, func(over func() bool) bool { return over() })
		p.applySoon()
	}))
}

func (p *process) apply(next *item) {
	e := &next.entry
	err := p.engine.Apply(next.epoch, &e.Entry)
	var refused *storage.BatchError
	if err != nil && !errors.As(err, &refused) {
		p.world.fail("%s: shard %d entry %d: %v", p.node.id, e.Entry.Shard, e.Entry.Index, err)
	}
	p.applied[e.Entry.Shard] = max(p.applied[e.Entry.Shard], e.Entry.Index)
	for i, s := range e.Shares {
		if refused != nil && slices.Contains(refused.Batches, i) {
			s.Finish(0, err)
		} else {
			s.Finish(e.Copies, nil)
		}
	}
}

// perform does what follows from what the machine was told.
func (p *process) perform() {
	out := p.machine.Output()
	for _, a := range out.Answers {
		a.Share.Finish(0, a.Err)
	}
	for _, a := range out.Reads {
		p.readAnswered(a)
	}
	for _, need := range out.Fetch {
		p.task("fetch", need.Shard, func() {
			if _, err := p.transfer.Install(context.Background(), need); err == nil {
				p.world.stats.Installs++
			}
		})
	}
	for _, shard := range out.Drop {
		p.task("drop", shard, func() { p.discard(shard) })
	}
	for _, q := range out.Ask {
		p.task("ask", q.Shard, func() {
			if p.transfer.HasLeft(context.Background(), &q) {
				_ = loopFace{p}.Left(&q)
			}
		})
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

// task begins a procedure of the product, unless the shard has it already.
func (p *process) task(what string, shard uint16, run func()) {
	name := what + string(rune('0'+shard))
	if p.busy[name] {
		return
	}
	p.busy[name] = true
	p.world.after(p.world.between(10, 1000), p.alive(func() {
		p.tasks++
		p.world.start(func() {
			run()
			p.busy[name] = false
			if p.tasks--; p.dead {
				p.close()
			}
		})
	}))
}

func (p *process) discard(shard uint16) {
	for !p.dead && p.transfer.Discard(shard) != nil {
		p.sleep(100_000)
	}
	p.world.stats.Drops++
	p.world.note("dropped "+p.node.id, uint64(shard))
}

func (p *process) confirm(shard uint16, done func(good bool)) {
	p.reads = append(p.reads, commit.Read{Shard: shard, For: done})
	p.wake()
}

func (p *process) readAnswered(a commit.ReadAnswer) {
	done := a.Read.For.(func(bool))
	if a.Err != nil {
		done(false)
		return
	}
	lives := p.machine.View(a.Read.Shard).Lives
	over := func() bool {
		if lives != p.machine.View(a.Read.Shard).Lives {
			done(false)
			return true
		}
		if p.applied[a.Read.Shard] < a.Index {
			return false
		}
		done(true)
		return true
	}
	if !over() {
		p.waits = append(p.waits, over)
	}
}

// read returns the value of a register; 0: none.
func (p *process) read(key sampleKey) (value float64) {
	err := p.engine.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{Metric: string(metricOf(key)), Shards: []uint16{key.shard}}, FromMs: key.time, ToMs: key.time, Parallel: 1,
	}, func(_ int, c *scan.Chunk) error {
		if len(c.Values) > 0 {
			value = c.Values[0]
		}
		return nil
	})
	if err != nil {
		p.world.fail("%s: read of %v: %v", p.node.id, key, err)
	}
	return value
}

func metricOf(key sampleKey) []byte {
	_, metric, _, _ := key.series().Parts(nil)
	return metric
}
