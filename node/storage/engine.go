package storage

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options configure an Engine.
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
	PersistSeriesMin   int             // see index.Options; 0: its default
	// SyncLog makes durable what has been applied. It is called before a manifest
	// counts pages, which may hold samples of entries that only the operating
	// system has: after a power cut pages must not know more than the log.
	SyncLog func() error
	// ReadOnly opens a snapshot. Only what reads may be called.
	ReadOnly   bool
	Logger     *slog.Logger
	Failpoints *failpoint.Set
}

// Folders and files below the data folder.
const (
	lockName      = "LOCK"
	dirIndex      = "series"
	dirPages      = "pages"
	dirSegments   = "segments"
	dirSnapshots  = "snapshots"
	dirLog        = "log" // the node's; nothing here reads it
	shardsDefault = 128

	generationBytesDefault = 128 << 20
	segmentBytesDefault    = 1 << 30

	maintenanceBytesDefault = 64 << 20
)

// Engine is the storage of one node. All methods may be called from many
// goroutines; calls of Apply for one shard must come in the order of its log.
type Engine struct {
	*read.Source // of what all shards have
	*compact.Compactor
	*transfer.Mover
	generations
	seriesMemory

	fs      vfs.FS
	dir     string
	options Options
	log     *slog.Logger
	hit     func(failpoint string) error // a failpoint is met; tests have their own
	lock    io.Closer

	shards   []*shard
	arena    page.Arena // memory of all hot pages
	index    *index.Index
	pages    *pagelog.Log
	files    *manifest.Store
	readers  *read.Gate
	shardKey atomic.Pointer[series.ShardKey]
	forgets  atomic.Bool // see LetForget
	thins    atomic.Bool // see LetThin
	hours    atomic.Bool // see LetTakeHours
	// hoursCame: an entry had hours, as those do that a new node hears of before it has heard what the others' folders allow.
	// The next checkpoint has the folder's format tell of them.
	hoursCame atomic.Bool

	// Lock order: the Compactor's Pause, an Edit of files, a shard, a change of files.
	monthsDropped index.Month // months before it are forgotten; guarded by the Compactor's Pause
	batches       batchIDs
	exemplars     exemplarFiles

	stats engineStats
}

// Open opens a data folder and brings back the state at its last checkpoint. The
// caller then applies the log from LogPosition on.
func Open(o Options) (*Engine, error) {
	e := &Engine{fs: o.FS, dir: o.Dir, options: withDefaults(o), log: o.Logger, hit: o.Failpoints.Hit}
	e.seriesMemory.init(o.SeriesBytesMax)
	e.seriesMemory.exemplars = &e.stats.exemplarBytes
	e.readers = read.NewGate()
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.options.Shards < 1 || e.options.Shards > manifest.ShardsMax {
		return nil, fmt.Errorf("%d shards: want from 1 to %d", e.options.Shards, manifest.ShardsMax)
	}
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if e.bytesMax > 0 {
		e.countIndex()
	}
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
	if err := vfs.RemoveAll(e.fs, path.Join(e.dir, dirSnapshots)); err != nil {
		e.log.Error("snapshots of a process before stay on disk until the next start", "error", err)
	}
	e.files, err = manifest.Open(manifest.Options{
		FS: e.fs, Dir: e.dir, Segments: dirSegments, Shards: e.options.Shards, ShardKey: e.options.ShardKey,
		Foreign:     []string{dirIndex, dirPages, dirSegments, dirLog},
		MakeDurable: e.makeDurable, Published: func(m *manifest.Manifest) {
			e.index.Published(m.Index)
			e.forgets.Store(m.Forgets())
			e.thins.Store(m.Thins())
			e.hours.Store(m.TakesHours())
		},
		Corrupt: e.reportCorruption, Logger: e.log,
		Hit: func(failpoint string) error { return e.hit(failpoint) },
	})
	if err != nil {
		return err
	}
	m := e.files.Present()
	if m.OfSnapshot() != e.options.ReadOnly {
		return fmt.Errorf("%w: %s is a snapshot, whose files are also those of another data folder: make a backup and restore it", manifest.ErrUnusable, e.dir)
	}
	e.shardKey.Store(&m.ShardKey)
	e.forgets.Store(m.Forgets())
	e.thins.Store(m.Thins())
	e.hours.Store(m.TakesHours())
	return e.restore(m)
}

func (e *Engine) restore(m *manifest.Manifest) (err error) {
	if e.batches.files, err = dedup.OpenFiles(e.fs, e.dir, m.BatchFile); err != nil {
		return err
	}
	tables, damage, err := e.batches.files.Read(m.Shards)
	if err != nil {
		return err
	}
	if damage != nil {
		e.reportCorruption(damage)
	}
	if err := e.makeShards(m, tables); err != nil {
		return err
	}
	e.batches.shards, e.batches.log = e.shards, e.log
	if err := e.openExemplars(m.ExemplarFile); err != nil {
		return err
	}
	e.index, err = index.Open(index.Options{
		FS: e.fs, Dir: path.Join(e.dir, dirIndex), State: m.Index, Applied: m.Applied, Failpoints: e.options.Failpoints, Corrupt: e.reportCorruption,
		PersistSeriesMin: e.options.PersistSeriesMin, ReadOnly: e.options.ReadOnly, DiskReserve: compact.Reserve * e.options.GenerationBytesMax,
	})
	if err != nil {
		return fmt.Errorf("open the series table: %w", err)
	}
	for _, s := range e.shards {
		s.forgotten = e.index.ForgottenOf(s.number)
	}
	generations := manifest.SlotGenerations(&m.Pages)
	e.pages, err = pagelog.Open(pagelog.Options{
		FS: e.fs, Dir: path.Join(e.dir, dirPages), ExtentBytes: e.options.ExtentBytes,
		GenerationBytes: e.options.GenerationBytesMax, Failpoints: e.options.Failpoints,
		OnCorrupt: func(err *pagelog.CorruptError) { e.reportCorruption(err) },
	}, m.Pages, func(ref pagelog.Ref, shard uint16, id uint32) {
		if int(shard) < len(e.shards) && !m.LowWater[shard].HidesRef(generations, ref) && !m.BeyondSnapshot(generations, shard, ref) {
			e.shards[shard].mu.set.SetPage(id, uint32(ref))
		}
	})
	if err != nil {
		return fmt.Errorf("open the page log: %w", err)
	}
	if err := e.files.OpenSegments(e.pages.Generations()[0]); err != nil {
		return err
	}
	e.pace.waiting.Store(int32(len(e.pages.Generations()) - 1))
	for _, g := range e.pages.Sizes() {
		if g.Bytes > 0 {
			e.atOpen = g.Number
		}
	}
	if e.atOpen == 0 {
		e.index.MarkDaysComplete()
	}
	for _, s := range e.shards {
		s.mu.outOfOrder.all = e.atOpen
	}
	e.wire()
	return nil
}

// makeShards makes the shards of a manifest.
func (e *Engine) makeShards(m *manifest.Manifest, tables []dedup.Table) error {
	for i := range m.Shards {
		rules, err := retention.NewTable(m.RuleCutsOf(i), e.ruleTables())
		if err != nil {
			return fmt.Errorf("%w: %w", manifest.ErrUnusable, err)
		}
		thin, err := retention.NewTable(m.ThinCutsOf(i), e.thinTables())
		if err != nil {
			return fmt.Errorf("%w: %w", manifest.ErrUnusable, err)
		}
		s := newShard(e, uint16(i), m.Applied[i], m.RetentionCutMs[i], rules, tables[i])
		s.thin.Store(newThinCuts(thin, m.Applied[i], nil))
		s.mu.number, s.mu.logPosition = m.LowWater[i].Number, m.LowWater[i].LogPosition
		s.absent.Store(m.LowWater[i].Dropped && m.Applied[i] == 0)
		e.shards = append(e.shards, s)
	}
	return nil
}

// wire makes the parts that work on what is open.
func (e *Engine) wire() {
	e.seriesMemory.arena, e.table, e.seriesMemory.shards = &e.arena, e.index, e.shards
	g := &e.generations
	g.pages, g.files, g.index, g.shards, g.stats, g.log = e.pages, e.files, e.index, e.shards, &e.stats, e.log
	g.hit = func(failpoint string) error { return e.hit(failpoint) }
	g.sorting = flush.Options{
		FS: e.fs, Files: e.files, Shards: len(e.shards),
		GenerationBytesMax: e.options.GenerationBytesMax, MaintenanceBytes: e.options.MaintenanceBytes,
		SpanMax:      func() segment.Span { return e.Compactor.SpanMax() },
		Cut:          func(shard uint16) int64 { return e.shards[shard].cutMs.Load() },
		Stored:       func(shard uint16, id uint32, timesMs []int64) { e.index.MarkStoredAt(shard, series.ID(id), timesMs) },
		Corrupt:      e.reportCorruption,
		BeforeFinish: func() error { return e.hit(FailFlushFinish) },
		Check:        invariants,
	}
	shards, movable := make([]read.Shard, len(e.shards)), make([]transfer.Shard, len(e.shards))
	for i, s := range e.shards {
		shards[i], movable[i] = s, s
	}
	e.Compactor = compact.New(compact.Options{
		FS: e.fs, Dir: e.dir, Files: e.files, Cuts: e.shardCuts, Thin: e.thinnable, Keys: e.index, Gone: e.index.Gone, Hosts: func(shard uint16) bool { return e.shards[shard].Holds() },
		GenerationBytesMax: e.options.GenerationBytesMax, SegmentBytesMax: e.options.SegmentBytesMax,
		Corrupt: e.reportCorruption, Logger: e.log,
		Hit: func(failpoint string) error { return e.hit(failpoint) },
	})
	e.Source = read.NewSource(read.Options{
		Gate: e.readers, Files: e.files, Pages: e.pages, Index: e.index, Shards: shards,
		GenerationAtOpen: e.atOpen, Prefetch: invariants, Corrupt: e.reportCorruption,
	})
	e.Mover = transfer.New(transfer.Options{
		FS: e.fs, Gate: e.readers, Source: e.Source, Files: e.files, Pages: e.pages, Index: e.index, Shards: movable,
		Sharding: e.Sharding, BatchIDs: &e.batches, Exemplars: &e.exemplars,
		MaintenanceBytes: e.options.MaintenanceBytes, SpanMax: e.Compactor.SpanMax, SyncLog: e.options.SyncLog, Flush: e.Flush, PauseMerges: e.Pause,
		Hit: func(failpoint string) error { return e.hit(failpoint) }, Logger: e.log,
	})
}

func (e *Engine) reportCorruption(err error) {
	e.stats.corruptions.Add(1)
	e.log.Error("damaged data; what it does not touch keeps serving", "error", err)
}

// Close ends the scans that run, waits for their visitors, and releases
// everything. Hot pages are not sealed: Checkpoint does that. Errors: ErrClosed when it
// was closed before, and those of the disk.
func (e *Engine) Close() error {
	if !e.readers.Close() {
		return read.ErrClosed
	}
	defer e.Compactor.Pause()()
	defer e.files.Edit().End()
	return e.close()
}

func (e *Engine) close() error {
	var problems []error
	if e.files != nil {
		problems = append(problems, e.files.Close())
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
	if own := e.files.Present().ShardKey; own != (series.ShardKey{}) && own != key {
		return ErrShardKey
	}
	e.shardKey.Store(&key)
	return nil
}

// Incarnation identifies the data folder.
func (e *Engine) Incarnation() string {
	return e.files.Present().Incarnation
}

// LogPosition is where the log must be read from after Open.
func (e *Engine) LogPosition() uint64 {
	return e.files.Present().LogPosition
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

// DurableIndexes returns for each shard the entry up to which the engine would start
// without the log. It does not wait for anything.
func (e *Engine) DurableIndexes() []uint64 { return e.files.Durable() }

// Apply applies an entry of a shard's log; epoch grows with the checkpoints, see
// Checkpoint. ErrStalled means that the entry is kept and waits for Resume. A
// *entry.BatchError names the batches that were wrong; entry.ErrInvalid means that the entry was, which is
// then passed over.
func (e *Engine) Apply(epoch uint16, one *entry.Entry) error {
	if int(one.Shard) >= len(e.shards) {
		e.stats.entriesInvalid.Add(1)
		return fmt.Errorf("%w: shard %d of %d", entry.ErrInvalid, one.Shard, len(e.shards))
	}
	return e.shards[one.Shard].apply(epoch, one)
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
	if err := e.hit(FailSeriesCreate); err != nil {
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
	if err := e.hit(FailSeriesCreated); err != nil {
		return 0, stalled(err)
	}
	return id, nil
}

// RenewIncarnation makes the data folder another one for all who know it by its
// incarnation. Errors are those of the disk; the folder may have a new one then.
func (e *Engine) RenewIncarnation() error {
	edit := e.files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return err
	}
	incarnation, err := manifest.NewIncarnation()
	if err != nil {
		return err
	}
	return edit.Publish(manifest.FailPublish, func(m *manifest.Manifest) { m.Incarnation = incarnation })
}
