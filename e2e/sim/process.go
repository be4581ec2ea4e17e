package sim

import (
	"fmt"
	"path"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage"
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

func (p *process) clockMs() int64 {
	return timeMin + p.node.offset + int64(float64(p.world.now)*p.node.rate)/1000
}

// closeIfEnded lets go of the files when no task of the dead process is under way any more.
func (p *process) closeIfEnded() {
	if !p.dead || p.tasks > 0 || p.closed {
		return
	}
	p.closed = true
	if p.log != nil {
		_ = p.log.Close()
	}
	if p.engine != nil {
		_ = p.engine.Close()
	}
}
