package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"path"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

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
