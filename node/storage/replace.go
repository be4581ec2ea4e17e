package storage

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// replacement is what takes the place of a shard's replica.
type replacement struct {
	applied     uint64
	cutMs       int64
	rules       *ruleTable
	batches     batchTable
	files       []string // paths of segments without a number, in the order of writing
	stones      []streamTombstone
	logPosition uint64
	dropped     bool
}

// DropShard removes the replica of a shard: at once it is neither seen nor replayed,
// and its bytes go as flushes and compactions come by. Its series keep their ids,
// should it come back. LogPosition is the end of the log: entries of the shard that
// stand before it are never applied again. No entry of the shard may be applied
// meanwhile.
//
// Errors are those of the disk. After one of them the replica is there or, should
// the manifest be in doubt, may be gone after the next start; a repetition settles it.
func (e *Engine) DropShard(shard uint16, logPosition uint64) error {
	_, leave, err := e.readers.enter(e.readers.closing)
	if err != nil {
		return err
	}
	defer leave()
	if int(shard) >= len(e.shards) {
		return fmt.Errorf("%w: shard %d of %d", ErrEntry, shard, len(e.shards))
	}
	err = e.replaceShard(e.shards[shard], &replacement{
		cutMs: noCut, batches: newBatchTable(), logPosition: logPosition, dropped: true,
	})
	if err != nil {
		return fmt.Errorf("drop shard %d: %w", shard, err)
	}
	return nil
}

// replaceShard publishes another replica of a shard, in one step. The files of r are
// gone or have their final names when it returns.
func (e *Engine) replaceShard(s *shard, r *replacement) error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if err := e.settleManifest(); err != nil {
		return err
	}
	below := floor{LogPosition: r.logPosition, Number: e.manifest.Floors[s.number].Number + 1, Dropped: r.dropped}
	below.Generation, below.Offset = e.pages.End()
	var err error
	if below.Sequence, err = e.sequencesBefore(below.Generation, len(r.files)); err != nil {
		return err
	}
	readers, err := e.nameSegments(r.files, below.Sequence)
	if err != nil {
		return err
	}
	stones := e.numberTombstones(s.number, r.stones, below.Sequence)
	batches, err := e.storeBatchTables(e.manifest.Applied, &batchReplacement{int(s.number), r.applied, r.batches.encode()})
	if err == nil {
		err = e.publishManifest(FailReplacePublish, func(m *manifest) {
			m.Floors, m.Applied, m.RetentionCutMs = slices.Clone(m.Floors), slices.Clone(m.Applied), slices.Clone(m.RetentionCutMs)
			m.Floors[s.number], m.Applied[s.number], m.RetentionCutMs[s.number] = below, r.applied, r.cutMs
			m.RuleCuts = withRuleCuts(m.RuleCuts, len(e.shards), s.number, r.rules.all())
			m.Tombstones = m.Tombstones.replaced(s.number, stones)
			m.Segments = slices.Clone(m.Segments)
			for _, reader := range readers {
				m.Segments = append(m.Segments, *reader.Meta())
			}
			m.BatchFile = batches.file
		})
	}
	if err != nil {
		return errors.Join(err, unpublished(err, readers))
	}
	e.keepBatchState(batches)
	e.swapReplica(s, r, &below, readers, stones)
	return e.failpoints.Hit(FailReplaceDone)
}

// swapReplica lets scans and the log see what the manifest says.
func (e *Engine) swapReplica(s *shard, r *replacement, below *floor, readers []*segment.Reader, stones tombstones) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.set.Close()
	s.mu.disorder = disorder{}
	s.mu.applied, s.mu.backlog, s.mu.stall, s.mu.doubtful = r.applied, nil, nil, noDoubt
	s.mu.ledger = newBatchLedger(r.batches, r.applied)
	s.mu.number, s.mu.logPosition = below.Number, below.LogPosition
	s.mu.watches.restart(math.MaxInt64)
	s.cutMs.Store(r.cutMs)
	s.rules.Store(r.rules)
	s.absent.Store(r.dropped)
	e.changeVersion(func(v *version) {
		v.floors = slices.Clone(v.floors)
		v.floors[s.number] = *below
		v.segments = orderSegments(append(slices.Clone(v.segments), readers...))
		v.tombstones = v.tombstones.replaced(s.number, stones)
	}, dropped{})
}

// sequencesBefore returns the first of n free sequences that come after all segments
// that there are, and before those of a generation that is being written.
func (e *Engine) sequencesBefore(generation uint32, n int) (first uint64, err error) {
	first = sequenceOf(generation-1) + 1
	for i := range e.manifest.Segments {
		first = max(first, e.manifest.Segments[i].SequenceHigh+1)
	}
	if first+uint64(n) >= sequenceOf(generation) {
		return 0, fmt.Errorf("%w: no room for %d segments before the next flush", series.ErrOverloaded, n)
	}
	return first, nil
}

// nameSegments returns files sequences from first on and their names, and opens them.
// After an error they are gone.
func (e *Engine) nameSegments(files []string, first uint64) (readers []*segment.Reader, err error) {
	if err := e.failpoints.Hit(FailInstallRenumber); err != nil {
		return nil, err
	}
	metas := make([]segment.Meta, 0, len(files))
	for i, name := range files {
		meta, err := segment.Renumber(e.fs, name, first+uint64(i))
		if err == nil {
			err = e.fs.Rename(name, path.Join(e.dir, dirSegments, meta.Name))
		}
		if err != nil {
			return nil, errors.Join(err, e.removeSegments(metas))
		}
		metas = append(metas, meta)
	}
	if len(files) > 0 {
		if err := e.fs.SyncDir(path.Join(e.dir, dirSegments)); err != nil {
			return nil, errors.Join(err, e.removeSegments(metas))
		}
	}
	return e.openNew(metas)
}

// numberTombstones returns the tombstones of a stream numbers of this node.
func (e *Engine) numberTombstones(shard uint16, stones []streamTombstone, first uint64) (numbered tombstones) {
	e.update.Lock()
	defer e.update.Unlock()
	for i := range stones {
		t := &stones[i]
		e.tombstoneLast++
		numbered = append(numbered, Tombstone{
			Shard: shard, IDs: t.ids, FromMs: t.fromMs, ToMs: t.toMs, Sequence: first + t.hides,
			Number: e.tombstoneLast, Entry: t.entry,
		})
	}
	return numbered
}

// RenewIncarnation makes the data folder another one for all who know it by its
// incarnation. Errors are those of the disk; the folder may have a new one then.
func (e *Engine) RenewIncarnation() error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if err := e.settleManifest(); err != nil {
		return err
	}
	incarnation, err := newIncarnation()
	if err != nil {
		return err
	}
	return e.publishManifest(FailCheckpointPublish, func(m *manifest) { m.Incarnation = incarnation })
}

// hosted returns a selector that leaves out the shards that were dropped.
func (e *Engine) hosted(selector *scan.Selector) *scan.Selector {
	dropped := slices.ContainsFunc(e.shards, func(s *shard) bool { return s.absent.Load() })
	if !dropped {
		return selector
	}
	narrowed := *selector
	narrowed.Shards = []uint16{}
	for _, s := range e.shards {
		if selector.Shards == nil || slices.Contains(selector.Shards, s.number) {
			if !s.absent.Load() {
				narrowed.Shards = append(narrowed.Shards, s.number)
			}
		}
	}
	return &narrowed
}
