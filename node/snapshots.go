package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// A snapshot keeps files on the disk that merges, retention and deletes have replaced, an open series table, and
// mappings. So there are few, and one that nobody has read for a while is given up: its reader has died. Where there are as many as
// there may be, the one that was read longest ago makes room after a shorter while.
// Somebody who goes on reading one, or takes one after the other, keeps files that were replaced for a day at most, and half of the
// snapshots, so that others can make backups meanwhile.
const (
	snapshotsMax      = 4
	snapshotsOfOwner  = snapshotsMax / 2
	snapshotLifeMost  = 24 * time.Hour
	snapshotIdleLeast = time.Minute
	snapshotIdleMost  = 10 * time.Minute
)

// snapshots are the open snapshots of a node. They end with the process.
type snapshots struct {
	taking  sync.Mutex // one is taken at a time
	closing sync.WaitGroup
	mu      struct {
		sync.Mutex
		held   map[string]*snapshot // by name
		closed bool
		reads  read.Stats // of those that have ended
	}
	nanos  atomic.Int64 // that the last one took, until its files were linked
	taken  atomic.Int64
	lapsed atomic.Int64 // given up before their end
}

// snapshot is one of them, open for reading. Its fields are guarded by snapshots.mu.
type snapshot struct {
	engine   *storage.Engine
	giveBack func()   // see storage.Engine.Lend
	shards   []uint16 // that may be read; nil: all
	readers  int
	used     time.Time // when the last reader was done
	taken    time.Time
	owner    string // who has taken it; "": nobody in particular
}

// ErrSnapshotEnded refuses reads of a snapshot that is not there any more.
var ErrSnapshotEnded = errors.New("the snapshot has ended, as it was not read for long, or was a day old, the disk was full, or the server was restarted")

// ErrNotInSnapshot refuses reads of shards of which it was not confirmed that a snapshot has all that was answered.
var ErrNotInSnapshot = errors.New("the snapshot was not taken of this shard")

// ErrNoSnapshots refuses snapshots where the file system of the data folder does not give files second names, or memory is short.
var ErrNoSnapshots = errors.New("no snapshot can be made")

var errSnapshotMemory = fmt.Errorf("%w: another index of all series would leave too little memory for writes", ErrNoSnapshots)

var errSnapshotTaken = fmt.Errorf("%w: a snapshot is being taken", series.ErrOverloaded)

var errSnapshotsOfOwner = fmt.Errorf("%w: this user has %d snapshots already, as many as one may; one that is not read makes room after %v", series.ErrOverloaded, snapshotsOfOwner, snapshotIdleLeast)

var errSnapshotsMax = fmt.Errorf("%w: there are %d snapshots already; one that is not read makes room after %v", series.ErrOverloaded, snapshotsMax, snapshotIdleLeast)

// TakeSnapshot keeps what is there now, of each shard at a moment within this call, for SnapshotOf until
// EndSnapshot, or for snapshotLifeMost. An owner has a share of the snapshots; "" is nobody in particular. See storage.Engine.Snapshot. Once it is kept, confirmed returns the shards that may be read from it; a nil
// confirmed stands for all. Errors: series.ErrOverloaded when there are too many,
// another one is being taken or flushes are far behind, series.ErrReadOnly when the disk does not take it, ErrNoSnapshots, that of
// the context, those of opening it.
func (n *Node) TakeSnapshot(ctx context.Context, owner string, confirmed func() []uint16) (name string, err error) {
	s := &n.snapshots
	if !s.taking.TryLock() {
		return "", errSnapshotTaken
	}
	defer s.taking.Unlock()
	if err := n.makeRoomForSnapshot(owner); err != nil {
		return "", err
	}
	giveBack, ok := n.engine.Lend()
	if !ok {
		return "", errSnapshotMemory
	}
	defer func() {
		if err != nil {
			giveBack()
		}
	}()
	n.flushForSnapshot(ctx)
	name = rand.Text()
	start := time.Now()
	if err := n.engine.Snapshot(ctx, name); err != nil {
		return "", snapshotError(err)
	}
	s.nanos.Store(int64(time.Since(start)))
	dir := storage.SnapshotFolder(n.options.DataDir, name)
	engine, err := storage.Open(storage.Options{
		FS: n.options.FS, Dir: dir, ReadOnly: true, PersistSeriesMin: n.options.PersistSeriesMin, Logger: n.logger,
		SyncLog: func() error { return nil },
	})
	if err != nil {
		return "", snapshotError(errors.Join(err, vfs.RemoveAll(n.options.FS, dir)))
	}
	now := n.options.Clock()
	held := &snapshot{engine: engine, giveBack: giveBack, used: now, taken: now, owner: owner}
	if confirmed != nil {
		held.shards = append([]uint16{}, confirmed()...) // none of them is none, not all
	}
	if err := ctx.Err(); err != nil { // nobody would be told its name
		return "", errors.Join(err, n.closeSnapshot(name, held))
	}
	s.taken.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held == nil {
		s.mu.held = map[string]*snapshot{}
	}
	s.mu.held[name] = held
	return name, nil
}

// flushForSnapshot brings what is in pages into segments, which have digests, so that a backup of what has not changed reads no
// sample. Where that fails, samples are read from pages, and maintenance says why.
func (n *Node) flushForSnapshot(ctx context.Context) {
	if n.engine.SealAhead(ctx) != nil {
		return
	}
	count, bytes := n.engine.Generations()
	if bytes == 0 || n.engine.Flush() != nil {
		return
	}
	n.flushed.add(int64(count), n.options.Clock())
}

// makeRoomForSnapshot gives up the snapshot that was read longest ago where there are as many as there may be: of the owner, if
// these are as many as one may have.
func (n *Node) makeRoomForSnapshot(owner string) error {
	s := &n.snapshots
	s.mu.Lock()
	full, closed, own := len(s.mu.held) >= snapshotsMax, s.mu.closed, 0
	for _, held := range s.mu.held {
		if owner != "" && held.owner == owner {
			own++
		}
	}
	ofOwner := own >= snapshotsOfOwner
	var oldest *snapshot
	for _, held := range s.mu.held {
		if held.readers == 0 && (!ofOwner || held.owner == owner) && (oldest == nil || held.used.Before(oldest.used)) {
			oldest = held
		}
	}
	s.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("%w: the node closes", series.ErrUnavailable)
	case !full && !ofOwner:
		return nil
	}
	gone := n.giveUpSnapshots(func(held *snapshot) bool {
		return held == oldest && held.readers == 0 && n.options.Clock().Sub(held.used) >= snapshotIdleLeast
	})
	switch {
	case gone > 0:
		return nil
	case ofOwner:
		return errSnapshotsOfOwner
	}
	return errSnapshotsMax
}

// snapshotError adds the kind to what may pass.
func snapshotError(err error) error {
	switch {
	case errors.Is(err, pagelog.ErrTooManyGenerations):
		return fmt.Errorf("%w: %w", series.ErrOverloaded, err)
	case errors.Is(err, storage.ErrStalled), vfs.IsNoSpace(err), errors.Is(err, pagelog.ErrBroken):
		return fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	case vfs.IsNoLink(err):
		return fmt.Errorf("%w: the file system of the data folder takes no hard links: %w", ErrNoSnapshots, err)
	}
	return err
}

// SnapshotOf returns what a snapshot has, of which shards are going to be read, until done is called; nil: all. Errors:
// ErrSnapshotEnded, ErrNotInSnapshot.
func (n *Node) SnapshotOf(name string, shards []uint16) (source *read.Source, done func(), err error) {
	s := &n.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.mu.held[name]
	if held == nil {
		return nil, nil, ErrSnapshotEnded
	}
	if err := held.check(shards); err != nil {
		return nil, nil, err
	}
	held.readers++
	return held.engine.Source, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		held.readers--
		held.used = n.options.Clock()
	}, nil
}

// check returns an error if shards may not be read.
func (s *snapshot) check(shards []uint16) error {
	if s.shards == nil {
		return nil
	}
	if shards == nil {
		return fmt.Errorf("%w: of all shards", ErrNotInSnapshot)
	}
	for _, shard := range shards {
		if !slices.Contains(s.shards, shard) {
			return fmt.Errorf("%w: shard %d", ErrNotInSnapshot, shard)
		}
	}
	return nil
}

// EndSnapshot ends the reads of a snapshot and gives back what it holds. One that has ended is no error.
func (n *Node) EndSnapshot(_ context.Context, name string) error {
	s := &n.snapshots
	s.mu.Lock()
	held := s.takeOutLocked(name)
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	return n.closeSnapshot(name, held)
}

// takeOutLocked returns a snapshot that nobody finds any more; nil: there is none of the name. Its reads count to the last that
// metrics have told of.
func (s *snapshots) takeOutLocked(name string) *snapshot {
	held := s.mu.held[name]
	if held != nil {
		delete(s.mu.held, name)
		s.mu.reads = s.mu.reads.Plus(held.engine.Source.Stats())
	}
	return held
}

func (n *Node) closeSnapshot(name string, held *snapshot) error {
	defer held.giveBack()
	return errors.Join(held.engine.Close(), vfs.RemoveAll(n.options.FS, storage.SnapshotFolder(n.options.DataDir, name)))
}

// snapshotsLapse reports whether there are snapshots to give up.
func (n *Node) snapshotsLapse(now time.Time) bool {
	s := &n.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.mu.held {
		if n.lapses(held, now) {
			return true
		}
	}
	return false
}

// lapses reports whether a snapshot is to be given up: nobody reads it, its life is over, or the disk is full, which keeps writes from being
// taken.
func (n *Node) lapses(held *snapshot, now time.Time) bool {
	if now.Sub(held.taken) >= snapshotLifeMost {
		return true
	}
	idle := now.Sub(held.used)
	return n.loop.refusals.full.Load() != nil || n.loop.refusals.stalled.Load() != nil || held.readers == 0 && (idle >= snapshotIdleMost || idle < -snapshotIdleMost)
}

// lapseSnapshots gives them up. Who reads one meanwhile is told, and is not waited for.
func (n *Node) lapseSnapshots(context.Context) error {
	n.giveUpSnapshots(func(held *snapshot) bool { return n.lapses(held, n.options.Clock()) })
	return nil
}

func (n *Node) giveUpSnapshots(which func(*snapshot) bool) (gone int) {
	s := &n.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, held := range s.mu.held {
		if !which(held) {
			continue
		}
		s.takeOutLocked(name)
		s.lapsed.Add(1)
		gone++
		n.logger.Warn("a snapshot is given up before its end: nobody reads it, it is a day old, the disk is full, or the node closes", "readers", held.readers)
		s.closing.Go(func() {
			if err := n.closeSnapshot(name, held); err != nil {
				n.logger.Error("a snapshot holds disk until the next start", "error", err)
			}
		})
	}
	return gone
}

// closeSnapshots gives all up; no further one is taken.
func (n *Node) closeSnapshots() {
	s := &n.snapshots
	s.taking.Lock()
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.taking.Unlock()
	n.giveUpSnapshots(func(*snapshot) bool { return true })
	s.closing.Wait()
}

// snapshotFigures are what metrics tell of snapshots.
type snapshotFigures struct {
	held, taken, lapsed int64
	took                time.Duration
	reads               read.Stats // of all
}

func (n *Node) snapshotFigures() snapshotFigures {
	s := &n.snapshots
	f := snapshotFigures{taken: s.taken.Load(), lapsed: s.lapsed.Load(), took: time.Duration(s.nanos.Load())}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.held, f.reads = int64(len(s.mu.held)), s.mu.reads
	for _, held := range s.mu.held {
		f.reads = f.reads.Plus(held.engine.Source.Stats())
	}
	return f
}
