package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// node is a machine with its present disk, and the process that runs there.
type node struct {
	id      string
	zone    string
	disk    *disk
	process *process // nil: none runs
	runs    uint64
	rate    float64 // of its clock
	offset  int64   // ms that its clock is wrong
}

// disk is what outlives processes: the product's data folder, and beside it what the node keeps
// of maps and runs. What is synced there outlives the power.
type disk struct {
	fs          *vfs.MemFS
	incarnation string        // of the data folder; empty: it was never opened
	former      []string      // incarnations that it was before
	serial      int           // differs for each incarnation
	kept        *shardmap.Map // newest map adopted
	power       bool          // the power was cut since the last start
	synced      wal.Position  // the log survives a power cut up to here
	images      []image       // by shard, for the checks
	ahead       []uint64      // by shard: an entry whose effects pages may have, whatever is applied
	checkpoint  []uint64      // by shard: what was applied when the last checkpoint was published
}

func (w *World) newDisk() *disk {
	w.disks++
	shards := w.options.Shards
	return &disk{fs: vfs.NewMemFS(), serial: w.disks, images: make([]image, shards), ahead: make([]uint64, shards), checkpoint: make([]uint64, shards)}
}

func (w *World) replaceDisk(n *node) {
	n.disk = w.newDisk()
}

// The product's files are small here, so that a short history fills some.
const (
	logFileBytes       = 16 << 10
	extentBytes        = 64 << 10
	generationBytesMax = 1 << 20
	persistSeriesMin   = 4
	roundsInFlight     = 3 // as in node's loop
)

// start runs the product's recovery on the node's disk, and then its process.
func (w *World) start(n *node) {
	if w.over || w.err != nil {
		return
	}
	shards := w.options.Shards
	p := &process{
		world: w, node: n, disk: n.disk, swaps: map[uint16]*swapWait{}, busy: map[taskName]bool{}, wakers: map[int]func(){},
		terms: make([]uint64, shards), voters: make([]votersSeen, shards), awaiting: make([][]*readWait, shards),
	}
	for range roundsInFlight {
		p.free = append(p.free, &round{Round: commit.NewRound(shards, 1)})
	}
	n.runs++
	n.process = p
	err := p.open()
	if p.dead {
		return // the power was cut meanwhile
	}
	if err != nil {
		p.fail(0, "it does not start: %v", err)
		w.kill(n)
		return
	}
	w.trace.note("start", n.id, int(n.runs), int(p.log.End()))
	p.live()
}

// open is what node.Open does.
func (p *process) open() (err error) {
	w, d := p.world, p.disk
	logger := slog.New(slog.DiscardHandler)
	files := vfs.Faults(d.fs, p.meet)
	p.engine, err = storage.Open(storage.Options{
		FS: files, Dir: "data", Shards: w.options.Shards, ExtentBytes: extentBytes, GenerationBytesMax: generationBytesMax, PersistSeriesMin: persistSeriesMin,
		Logger: logger, SyncLog: p.syncForEngine,
	})
	if err != nil {
		return err
	}
	damaged := false
	p.log, err = wal.Open(wal.Options{
		FS: files, Dir: "data/log", FileBytes: logFileBytes, RecycleMax: -1, OnCorrupt: func(*wal.CorruptError) { damaged = true },
	})
	if err != nil {
		return err
	}
	d.incarnation, d.synced = p.engine.Incarnation(), p.log.Synced()
	for shard := range d.images {
		d.images[shard] = image{}
	}
	recovered, err := p.recover(logger)
	if err != nil {
		return err
	}
	if err := p.renewIfLost(recovered, damaged); err != nil {
		return err
	}
	if err := p.newMachine(recovered, logger); err != nil {
		return err
	}
	if err := p.retireGaps(); err != nil || !recovered.Decided() {
		return err
	}
	if _, err = p.logStates(); err == nil {
		err = p.syncLog()
	}
	return err
}

// newMachine makes what drives the groups that a start has found.
func (p *process) newMachine(recovered *commit.Recovery, logger *slog.Logger) (err error) {
	n, w, d := p.node, p.world, p.disk
	o := &w.options
	p.machine, err = commit.New(commit.Config{
		Host: replica.Config{
			Node: n.id, Incarnation: d.incarnation, Run: n.runs, Seed: w.rng.Uint64(), SyncLater: o.statesLater(), HibernateTicks: 8,
			MessageBytesMax: 512, InflightBytesMax: 4096, CacheBytesMax: 2048, ApplyBytesMax: 1024,
		},
		Shards: o.Shards, Log: p.log, Logger: logger,
	}, recovered)
	if err != nil {
		return err
	}
	p.seen = d.kept
	seen := shardmap.Seen{}
	if d.kept != nil {
		seen = shardmap.Seen{ClusterID: d.kept.ID, Epoch: d.kept.Epoch}
	}
	p.store = w.server.Open(seen)
	p.transfer = transfer.New(transfer.Options{
		Node: n.id, Engine: p.engine, Loop: loopFace{p}, Files: fileStreams{p}, GroupClient: groupClient{p}, Logger: logger,
		Clock: func() time.Time { return time.UnixMilli(p.clockMs()) },
	})
	p.applied = p.machine.Dispatched()
	p.tellEras()
	p.epoch = epochStart{wal.Position(p.engine.LogPosition()), p.engine.AppliedIndexes(), 0}
	p.perform()
	return nil
}

// tellEras reports to the oracle the groups of one voter that go on by themselves from a log that has
// lost its end.
func (p *process) tellEras() {
	host := p.machine.Host()
	for _, shard := range host.Shards() {
		status, err := host.Status(shard)
		if err == nil && status.Era > p.world.oracle.shards[shard].era {
			p.world.trace.note("alone", p.node.id, int(shard), int(status.Era))
			p.world.stats.Eras++
			p.world.oracle.begin(shard, status.Era, &p.disk.images[shard], status.Last, true)
		}
	}
}

// recover reads the log by the product's recovery, and shows it to the checks.
func (p *process) recover(logger *slog.Logger) (*commit.Recovery, error) {
	w := p.world
	recovered := commit.NewRecovery(hearingEngine{p.engine, p}, p.log, w.options.Shards, logger)
	forget := p.forgottenBefore()
	err := p.log.Replay(0, func(at, _ wal.Position, record []byte) error {
		p.note(record, at, false)
		e, err := entry.Parse(record)
		if err == nil && at < forget[e.Shard] {
			return nil
		}
		if record = w.breakRecord(record); record == nil {
			return nil
		}
		return recovered.Take(at, record)
	})
	return recovered, err
}

// hearingEngine reports to the oracle what a start takes for committed.
type hearingEngine struct {
	*storage.Engine
	p *process
}

// Replay implements commit.Engine.
func (h hearingEngine) Replay(position uint64, e *entry.Entry) error {
	p := h.p
	p.world.oracle.committed(p, e.Shard, p.disk.images[e.Shard].era, e)
	if p.world.is(BatchIDsAhead) && e.Kind == entry.Samples && e.Index <= p.disk.checkpoint[e.Shard] {
		e = &entry.Entry{Kind: entry.Empty, Shard: e.Shard, Term: e.Term, Index: e.Index, Gap: e.Gap}
	}
	return h.Engine.Replay(position, p.forApplying(e))
}

// renewIfLost makes the data folder another incarnation when its log may lack what its
// replicas have told others, as node does.
func (p *process) renewIfLost(r *commit.Recovery, damaged bool) error {
	d, w := p.disk, p.world
	var lost error
	switch {
	case d.power && !w.options.Always:
		lost = errors.New("the power was cut, and the last run had not synced its log")
	case damaged:
		lost = errors.New("a part of it is damaged")
	case p.log.End() < wal.Position(p.engine.LogPosition()):
		lost = errors.New("it ends before the last checkpoint")
	}
	if w.is(VoteWithoutTail) {
		lost = nil
	}
	d.power = false
	if lost != nil && w.options.Always {
		return lost // it was synced before each answer
	}
	doubt := r.Doubt(lost)
	if doubt == nil || w.is(VoteWithoutTail) {
		return nil
	}
	if lost == nil {
		return doubt // nothing can have been lost
	}
	d.former = append(d.former, d.incarnation)
	if err := p.engine.RenewIncarnation(); err != nil {
		return err
	}
	w.disks++
	d.incarnation, d.serial = p.engine.Incarnation(), w.disks
	w.trace.note("reincarnate", p.node.id, d.serial)
	return nil
}

// live begins what goes on by itself.
func (p *process) live() {
	w := p.world
	w.every(p.run, func() int64 { return int64(50_000 / p.node.rate) }, func() bool {
		p.inbox.ticks++
		p.wake()
		return !p.dead
	})
	if w.options.Forget {
		w.every(p.run, func() int64 { return w.between(50_000, 300_000) }, func() bool {
			for shard := range uint16(w.options.Shards) {
				p.forget(shard)
			}
			return !p.dead
		})
	}
	w.every(p.run, func() int64 { return w.between(300_000, 1_200_000) }, func() bool { p.maintain(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(20_000, 150_000) }, func() bool { p.watch(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(100_000, 300_000) }, func() bool { p.publish(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(300_000, 600_000) }, func() bool { p.register(); return !p.dead })
	if kept := p.disk.kept; kept != nil {
		p.command(func() { p.machine.Adopt(kept) })
	}
	p.register()
	w.tellPeers(p.node.id, true)
}

// kill ends the process. The disk has all that was written.
func (w *World) kill(n *node) {
	if p := n.process; p != nil {
		p.writeSome()
		left := p.disk.fs
		if !w.over { // else nobody starts from it
			left = left.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
		}
		p.end(left, false)
	}
}

// cut ends the process, if one runs, and takes what the disk has not synced, or a part of it.
func (w *World) cut(n *node) {
	w.cuts = append(w.cuts, w.now)
	w.trace.note("power cut", n.id)
	if p := n.process; p != nil {
		p.writeSome()
		p.end(n.disk.fs.CrashClone(w.crash()), true)
		return
	}
	n.disk.fs = n.disk.fs.CrashClone(w.crash())
	n.disk.lostPower()
}

// crash returns what survives a power cut: nothing, a part or all that was not synced.
func (w *World) crash() vfs.CrashOptions {
	parts := [3]int{0, 50, 100}
	return vfs.CrashOptions{Seed: w.rng.Uint64(), BlockPercent: parts[w.rng.IntN(3)], NamePercent: parts[w.rng.IntN(3)]}
}

func (d *disk) lostPower() {
	d.power = true
	for shard := range d.images {
		d.images[shard].cut(d.synced) // more may have survived, which the next start will tell
	}
}

// writeSome lets a round that is being written reach the file, by chance.
func (p *process) writeSome() {
	if p.writing != nil && !p.written && p.world.chance(2) && p.writing.Buffer.Records() > 0 {
		_, _, _ = p.log.Write(&p.writing.Buffer)
	}
}

// end ends the process with what is left of the disk. It may be called from anywhere.
func (p *process) end(left *vfs.MemFS, power bool) {
	w, d := p.world, p.disk
	p.dead, p.node.process = true, nil
	if p.machine != nil {
		for shard, index := range p.applied {
			d.ahead[shard] = max(d.ahead[shard], index)
		}
		p.store.SetReachable(false)
	}
	if d.fs = left; power {
		d.lostPower()
	}
	w.trace.note("end", p.node.id)
	w.tellPeers(p.node.id, false)
	for _, shard := range slices.Sorted(maps.Keys(p.swaps)) {
		p.swaps[shard].cancel()
	}
	for _, at := range slices.Sorted(maps.Keys(p.wakers)) {
		p.wakers[at]()
	}
	w.after(0, p.closeIfEnded)
}

// meet decides about one operation on the disk: the power is cut before it, if that is to be.
func (p *process) meet(op vfs.Op) error {
	if p.dead {
		return errDead
	}
	if p.cutAfter == 0 || !p.counts(&op) {
		return nil
	}
	if p.cutAfter--; p.cutAfter > 0 {
		return nil
	}
	w, power := p.world, p.cutPower
	crash := vfs.CrashOptions{BlockPercent: 100, NamePercent: 100}
	if power {
		crash = w.crash()
		w.cuts = append(w.cuts, w.now)
	}
	w.trace.note("cut within", p.node.id)
	w.stats.CutsWithin++
	w.after(w.between(1000, downMax), func() { w.startIfDown(p.node) })
	p.end(p.disk.fs.CrashClone(crash), power)
	return errDead
}

var errDead = errors.New("the process is dead")

func (w *World) addNode(i int) *node {
	n := &node{id: fmt.Sprintf("n%d", i), zone: fmt.Sprintf("z%d", i%3), rate: 1}
	if w.options.Faults.has(FaultClocks) {
		n.rate = 0.9 + 0.2*w.rng.Float64()
		n.offset = w.between(-31_536_000_000, 31_536_000_000)
	}
	n.disk = w.newDisk()
	w.nodes = append(w.nodes, n)
	w.start(n)
	return n
}

func (w *World) startIfDown(n *node) {
	if n.process == nil {
		w.start(n)
	}
}

// down stops a node's process; it is started again.
func (w *World) down(n *node, least int64) {
	w.kill(n)
	w.stats.Kills++
	w.after(least+w.between(1000, downMax), func() { w.startIfDown(n) })
}
