package storage

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options of an Engine.
type Options struct {
	FS                 vfs.FS
	Dir                string          // the data folder, made if missing
	Shards             int             // of a new data folder; a used one keeps its own
	ShardKey           series.ShardKey // likewise; a folder of a cluster has none, see AdoptShardKey
	ExtentBytes        int64           // of the page log's files; 0: its default
	GenerationBytesMax int64           // of the page log; 0: 128 MiB
	SeriesBytesMax     int64           // memory of the index and of hot pages; 0: no bound
	MaintenanceBytes   int64           // memory of flushes and exports; 0: 64 MiB
	SegmentBytesMax    int64           // a merge splits larger outputs; 0: 1 GiB
	// SyncLog makes durable what has been applied. It is called before a manifest
	// counts pages, which may hold samples of entries that only the operating
	// system has: after a power cut pages must not know more than the log.
	SyncLog    func() error
	Logger     *slog.Logger
	Failpoints *failpoint.Set
}

// Folders and files below the data folder.
const (
	lockName      = "LOCK"
	dirIndex      = "series"
	dirPages      = "pages"
	dirSegments   = "segments"
	dirLog        = "log" // the node's; nothing here reads it
	shardsDefault = 128

	generationBytesDefault = 128 << 20
	segmentBytesDefault    = 1 << 30

	maintenanceBytesDefault = 64 << 20
)

// Engine is the storage of one node. All methods may be called from many
// goroutines; calls of Apply for one shard must come in the order of its log.
type Engine struct {
	fs         vfs.FS
	dir        string
	options    Options
	log        *slog.Logger
	failpoints *failpoint.Set
	lock       io.Closer

	shards   []*shard
	arena    page.Arena // memory of all hot pages
	memory   seriesMemory
	index    *index.Index
	pages    *pagelog.Log
	versions versions
	update   sync.Mutex // serialises changes of the version
	// The number of the latest tombstone; guarded by update.
	tombstoneLast uint64
	coming        awaited    // by the repair under way; guarded by update
	rolling       sync.Mutex // serialises the rolls of full generations
	pace          pace
	scarcity      scarcity
	readers       gate
	spawn         func(func()) // begins a helper of a read; tests have their own
	damages       damages
	shardKey      atomic.Pointer[series.ShardKey]
	repairing     sync.Mutex    // held by RepairRange
	exports       atomic.Uint64 // ever begun, which tells their scratch files apart
	keepMs        atomic.Int64  // how long samples are kept; 0: for ever
	purgeThrough  atomic.Uint64 // tombstones up to this number are due

	// The last generation that had pages when the folder was opened; 0: none.
	generationAtOpen uint32

	// Lock order: rewriting, maintenance, a shard, update.
	rewriting     sync.Mutex               // held by Compact and Retain: they alone drop segments
	maintenance   sync.Mutex               // held by what publishes a manifest, while it does
	manifest      *manifest                // as published last; guarded by maintenance
	inDoubt       bool                     // the file may be a later one; guarded by maintenance
	arriving      map[uint16]int64         // cuts of the shards that are being installed; guarded by maintenance
	failed        failedJobs               // guarded by rewriting
	ages          tombstoneAges            // guarded by rewriting
	monthsDropped index.Month              // months before it are forgotten; guarded by rewriting
	batches       batchState               // as published last; guarded by maintenance
	durable       atomic.Pointer[[]uint64] // Applied of the manifest
	batchFileLast uint64                   // number of the last file of batch ids; guarded by maintenance

	stats engineStats
}

// Open opens a data folder and brings back the state at its last checkpoint. The
// caller then applies the log from LogPosition on.
func Open(o Options) (*Engine, error) {
	e := &Engine{fs: o.FS, dir: o.Dir, options: withDefaults(o), log: o.Logger, failpoints: o.Failpoints}
	e.memory.init(o.SeriesBytesMax)
	e.spawn = func(help func()) { go help() }
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.options.Shards < 1 || e.options.Shards > shardsMax {
		return nil, fmt.Errorf("%d shards: want from 1 to %d", e.options.Shards, shardsMax)
	}
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if e.memory.bytesMax > 0 {
		e.countIndex()
	}
	e.readers.open()
	return e, nil
}

func withDefaults(o Options) Options {
	if o.Shards == 0 {
		o.Shards = shardsDefault
	}
	if o.GenerationBytesMax == 0 {
		o.GenerationBytesMax = generationBytesDefault
	}
	if o.MaintenanceBytes == 0 {
		o.MaintenanceBytes = maintenanceBytesDefault
	}
	if o.SegmentBytesMax == 0 {
		o.SegmentBytesMax = segmentBytesDefault
	}
	return o
}

func (e *Engine) open() error {
	if err := e.fs.MkdirAll(e.dir); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := e.fs.Lock(path.Join(e.dir, lockName))
	if err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			return fmt.Errorf("data folder %s is in use by another process: %w", e.dir, err)
		}
		return fmt.Errorf("lock the data folder: %w", err)
	}
	e.lock = lock
	m, err := readManifest(e.fs, e.dir)
	if isNew(err) {
		if m, err = newManifest(e.options.Shards, e.options.ShardKey); err != nil {
			return err
		}
		if err = e.refuseForeignFiles(); err == nil {
			err = writeManifest(e.fs, e.dir, m)
		}
	}
	if err != nil {
		return err
	}
	e.shardKey.Store(&m.ShardKey)
	e.setManifest(m)
	return e.restore(m)
}

// refuseForeignFiles guards against a folder whose manifest was lost: to start
// it as new would throw its data away. The manifest is the first file that is
// made, so nothing else can be there without one.
func (e *Engine) refuseForeignFiles() error {
	entries, err := e.fs.List(e.dir)
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	for _, entry := range entries {
		names, err := e.fs.List(path.Join(e.dir, entry))
		if err == nil && len(names) > 0 && slices.Contains([]string{dirIndex, dirPages, dirSegments, dirLog}, entry) {
			return fmt.Errorf("%w: %s has %s/%s but no manifest; restore the file %s or choose another folder",
				ErrManifest, e.dir, entry, names[0], manifestName)
		}
	}
	return nil
}

func (e *Engine) restore(m *manifest) (err error) {
	tables, err := e.readBatchTables(m)
	if err != nil {
		return err
	}
	for i := range m.Shards {
		rules, err := newRuleTable(m.ruleCutsOf(i), e.ruleTables())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrManifest, err)
		}
		s := newShard(e, uint16(i), m.Applied[i], m.RetentionCutMs[i], rules, tables[i])
		s.mu.number, s.mu.logPosition = m.Floors[i].Number, m.Floors[i].LogPosition
		s.absent.Store(m.Floors[i].Dropped && m.Applied[i] == 0)
		e.shards = append(e.shards, s)
	}
	e.index, err = index.Open(index.Options{
		FS: e.fs, Dir: path.Join(e.dir, dirIndex), State: m.Index, Failpoints: e.failpoints, Corrupt: e.reportCorruption,
	})
	if err != nil {
		return fmt.Errorf("open the series table: %w", err)
	}
	generations := slotGenerations(&m.Pages)
	e.pages, err = pagelog.Open(pagelog.Options{
		FS: e.fs, Dir: path.Join(e.dir, dirPages), ExtentBytes: e.options.ExtentBytes,
		GenerationBytes: e.options.GenerationBytesMax, Failpoints: e.failpoints,
		OnCorrupt: func(err *pagelog.CorruptError) { e.reportCorruption(err) },
	}, m.Pages, func(ref pagelog.Ref, shard uint16, id uint32) {
		if int(shard) < len(e.shards) && !m.Floors[shard].hidesRef(generations, ref) {
			e.shards[shard].mu.set.SetPage(id, uint32(ref))
		}
	})
	if err != nil {
		return fmt.Errorf("open the page log: %w", err)
	}
	e.tombstoneLast = m.tombstoneLast()
	v := &version{tombstones: m.Tombstones, floors: m.Floors, generationOldest: e.pages.Generations()[0], excluded: m.Excluded}
	v.segments, v.missing, err = e.openSegments(m.Segments)
	if err != nil {
		return err
	}
	// The manifest lists them as they were published, a merged one last.
	v.segments = orderSegments(v.segments)
	e.versions.publish(v, dropped{})
	e.pace.waiting.Store(int32(len(e.pages.Generations()) - 1))
	for _, g := range e.pages.Sizes() {
		if g.Bytes > 0 {
			e.generationAtOpen = g.Number
		}
	}
	if e.generationAtOpen == 0 {
		e.index.SettleDays()
	}
	for _, s := range e.shards {
		s.mu.disorder.all = e.generationAtOpen
	}
	return nil
}

// openSegments opens what the manifest names and removes other files. A segment
// that cannot be opened is reported, and reads of its range give an error: the rest
// keeps serving. It stays in the manifest.
func (e *Engine) openSegments(metas []segment.Meta) (readers []*segment.Reader, lost []missing, err error) {
	dir := path.Join(e.dir, dirSegments)
	if err := e.fs.MkdirAll(dir); err != nil {
		return nil, nil, fmt.Errorf("make the folder of segments: %w", err)
	}
	names, err := e.fs.List(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list segments: %w", err)
	}
	known := map[string]bool{}
	for i := range metas {
		known[metas[i].Name] = true
	}
	for _, name := range names {
		if !known[name] && (strings.HasSuffix(name, segment.FileSuffix) || strings.HasSuffix(name, segment.TemporarySuffix)) {
			if err := e.fs.Remove(path.Join(dir, name)); err != nil {
				return nil, nil, fmt.Errorf("remove an unfinished segment: %w", err)
			}
		}
	}
	for i := range metas {
		r, err := segment.Open(e.fs, path.Join(dir, metas[i].Name))
		if err != nil {
			e.reportCorruption(err)
			lost = append(lost, missing{metas[i], err.Error()})
			continue
		}
		readers = append(readers, r)
	}
	return readers, lost, nil
}

func (e *Engine) reportCorruption(err error) {
	e.stats.corruptions.Add(1)
	e.log.Error("damaged data; what it does not touch keeps serving", "error", err)
}

// Close ends the scans that run, waits for their visitors, and gives everything
// back. Hot pages are not sealed: Checkpoint does that. Errors: ErrClosed when it
// was closed before, and those of the disk.
func (e *Engine) Close() error {
	if !e.readers.close() {
		return ErrClosed
	}
	e.rewriting.Lock()
	defer e.rewriting.Unlock()
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	e.versions.sweeper.wait()
	return e.close()
}

func (e *Engine) close() error {
	var problems []error
	if e.versions.current != nil {
		for _, r := range e.versions.current.segments {
			problems = append(problems, r.Release())
		}
	}
	if e.pages != nil {
		problems = append(problems, e.pages.Close())
	}
	if e.index != nil {
		problems = append(problems, e.index.Close())
	}
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.set.Close()
		s.mu.Unlock()
	}
	problems = append(problems, e.arena.Close())
	if e.lock != nil {
		problems = append(problems, e.lock.Close())
	}
	return errors.Join(problems...)
}

// Shards returns the number of shards.
func (e *Engine) Shards() int { return len(e.shards) }

// Sharding returns how the shards of series are chosen.
func (e *Engine) Sharding() series.Sharding {
	return series.Sharding{Shards: len(e.shards), Key: *e.shardKey.Load()}
}

// ErrShardKey marks a data folder whose series were placed under another shard key.
var ErrShardKey = errors.New("the data folder has another shard key")

// AdoptShardKey takes the key of a cluster, whose map keeps it. Errors: ErrShardKey when
// the folder was made with a key of its own that differs.
func (e *Engine) AdoptShardKey(key series.ShardKey) error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if own := e.manifest.ShardKey; own != (series.ShardKey{}) && own != key {
		return ErrShardKey
	}
	e.shardKey.Store(&key)
	return nil
}

// Incarnation identifies the data folder.
func (e *Engine) Incarnation() string {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	return e.manifest.Incarnation
}

// LogPosition is where the log must be read from after Open.
func (e *Engine) LogPosition() uint64 {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	return e.manifest.LogPosition
}

// AppliedIndexes returns the last applied entry of each shard.
func (e *Engine) AppliedIndexes() []uint64 {
	applied := make([]uint64, len(e.shards))
	for i, s := range e.shards {
		s.mu.Lock()
		applied[i] = s.mu.applied
		s.mu.Unlock()
	}
	return applied
}

// DurableIndexes gives for each shard the entry up to which the engine would start
// without the log. It does not wait for anything.
func (e *Engine) DurableIndexes() []uint64 { return slices.Clone(*e.durable.Load()) }

// setManifest takes over what the file says. The caller holds the maintenance lock.
func (e *Engine) setManifest(m *manifest) {
	e.manifest = m
	e.durable.Store(&m.Applied) // replaced, never changed
}

// Apply applies an entry of a shard's log; epoch grows with the checkpoints, see
// Checkpoint. ErrStalled means that the entry is kept and waits for Resume. A
// *BatchError says which batches were wrong; ErrEntry that the entry was, which is
// then passed over.
func (e *Engine) Apply(epoch uint16, entry *Entry) error {
	if int(entry.Shard) >= len(e.shards) {
		e.stats.entriesInvalid.Add(1)
		return fmt.Errorf("%w: shard %d of %d", ErrEntry, entry.Shard, len(e.shards))
	}
	return e.shards[entry.Shard].apply(epoch, entry)
}

// Resume applies what has stalled, in order. Nil means that nothing stalls now.
func (e *Engine) Resume() error {
	for _, s := range e.shards {
		if err := s.resume(); err != nil {
			return err
		}
	}
	return nil
}

// defineSeries returns the id of a key, a new one if it has none, with its first
// sample at timeMs.
func (e *Engine) defineSeries(shard uint16, key series.Key, timeMs int64) (series.ID, error) {
	ref, known, err := e.index.Lookup(key)
	if err != nil {
		return 0, stalled(err)
	}
	if known {
		return ref.ID, nil
	}
	if err := e.failpoints.Hit(FailSeriesCreate); err != nil {
		return 0, stalled(err)
	}
	id := series.ID(e.index.ShardSeries(shard))
	_, err = e.index.Create(shard, id, key, index.DayOf(timeMs))
	switch {
	case errors.Is(err, series.ErrKey):
		return 0, fmt.Errorf("%w: define series %s: %w", series.ErrBatch, key, err)
	case errors.Is(err, index.ErrFull):
		return 0, fmt.Errorf("%w: define series %s: %w", series.ErrSeriesLimit, key, err)
	}
	if err != nil {
		return 0, stalled(err)
	}
	if err := e.failpoints.Hit(FailSeriesCreated); err != nil {
		return 0, stalled(err)
	}
	return id, nil
}

// addTombstone makes a tombstone take effect. Its series have been sealed, and
// their shard is locked. Its place is read and published in one step, so that a
// flush either knows it or has ended the generation before it: see flusher.run.
func (e *Engine) addTombstone(t Tombstone) {
	e.changeVersion(func(v *version) {
		t.Generation, t.Offset = e.pages.End()
		t.Sequence = sequenceOf(t.Generation)
		e.tombstoneLast++
		t.Number = e.tombstoneLast
		v.tombstones = v.tombstones.with(t)
	}, dropped{})
}

// changeVersion publishes a changed copy of the current version. The actions of what is
// dropped run as soon as no reader can see what came before, in this call or by the sweeper,
// without any lock but those of this call's caller.
func (e *Engine) changeVersion(change func(*version), d dropped) {
	e.update.Lock()
	current := e.versions.peek()
	next := &version{
		segments: current.segments, tombstones: current.tombstones, floors: current.floors, generationOldest: current.generationOldest,
		excluded: current.excluded, missing: current.missing,
	}
	change(next)
	actions := e.versions.publish(next, d)
	e.update.Unlock()
	for _, act := range actions {
		act()
	}
}
