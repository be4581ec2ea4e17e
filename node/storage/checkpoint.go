package storage

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Names of the places where tests can make the engine fail.
const (
	FailCheckpointSeal    = "checkpoint/before-seal"
	FailCheckpointSync    = "checkpoint/before-sync"
	FailCheckpointBatches = "checkpoint/after-batch-ids"
	FailCheckpointDone    = "checkpoint/after-publish"
	FailFlushSort         = "flush/before-sort"
	FailFlushFinish       = "flush/before-finish"
	FailFlushPublish      = "flush/before-publish"
	FailFlushDone         = "flush/after-publish"
	FailRetentionDone     = "retention/after-publish"
	FailSeriesCreate      = "series/before-create"
	FailSeriesCreated     = "series/after-create"
)

// Failpoints lists the names of the engine, series table and page log included.
func Failpoints() []string {
	names := []string{
		FailCheckpointSeal, FailCheckpointSync, FailCheckpointBatches, manifest.FailPublish, FailCheckpointDone,
		FailFlushSort, FailFlushFinish, FailFlushPublish, FailFlushDone,
		compact.FailMerge, compact.FailPublish, compact.FailDone,
		compact.FailExpirePublish, FailRetentionDone, FailSeriesCreate, FailSeriesCreated,
	}
	return slices.Concat(names, transfer.MovementFailpoints(), transfer.RepairFailpoints(), index.Failpoints(), pagelog.Failpoints())
}

// Checkpoint names a place in the log.
type Checkpoint struct {
	// Position is where recovery shall start to read. All entries before it are
	// applied, and hot pages whose oldest sample comes from one of them have an
	// epoch ≤ SealThrough.
	Position uint64
	// Applied has for each shard an entry such that all up to it have epochs
	// ≤ SealThrough, and all after it lie at or behind Position and have later epochs.
	Applied     []uint64
	SealThrough uint16
	SealAll     bool // seal every hot page, for a clean end
}

// Checkpoint seals what is older than the position, makes the page log and the
// series table durable, and publishes the position. After it returned nil the
// log before the position is not needed.
func (e *Engine) Checkpoint(c Checkpoint) error {
	edit := e.files.Edit()
	defer edit.End()
	if err := e.hit(FailCheckpointSeal); err != nil {
		return err
	}
	for _, s := range e.shards {
		if err := s.seal(c.SealThrough, c.SealAll); err != nil {
			return fmt.Errorf("checkpoint: shard %d: %w", s.number, err)
		}
	}
	if err := e.hit(FailCheckpointSync); err != nil {
		return err
	}
	applied := e.appliedAt(edit.Present(), &c)
	batches, err := e.batches.stage(applied, nil)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	exemplars := e.exemplars.stage(nil)
	if err := e.hit(FailCheckpointBatches); err != nil {
		return err
	}
	err = edit.Publish(manifest.FailPublish, func(m *manifest.Manifest) {
		m.LogPosition = c.Position
		m.Applied = applied
		m.BatchFile, m.ExemplarFile = batches.Name, exemplars.Name
		e.noteThinCuts(m, applied)
		if e.hoursCame.Load() {
			m.LetTakeHours()
		}
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	e.batches.Keep(batches)
	e.exemplars.Keep(exemplars)
	if err := e.index.FinalizeForgotten(applied); err != nil {
		e.reportCorruption(err)
	}
	for i, s := range e.shards {
		s.mu.Lock()
		s.mu.ledger.Forget(applied[i])
		s.mu.Unlock()
	}
	e.stats.checkpoints.Add(1)
	return e.hit(FailCheckpointDone)
}

// appliedAt returns each shard's last entry that is not replayed from a checkpoint on.
// Of a shard that was dropped or installed since the checkpoint began, or while it
// did, it may know the former replica's; then all entries of the present one lie behind
// the position. A replica never takes the place of one that is further on, so that
// such an entry is either not as far as the present one began, or further than it is,
// or the same.
func (e *Engine) appliedAt(m *manifest.Manifest, c *Checkpoint) []uint64 {
	applied := slices.Clone(c.Applied)
	for i, s := range e.shards {
		f, first := &m.LowWater[i], m.Applied[i]
		if f.Number == 0 {
			continue
		}
		s.mu.Lock()
		last := s.mu.applied
		s.mu.Unlock()
		if f.LogPosition >= c.Position || applied[i] < first || applied[i] > last {
			applied[i] = first
		}
	}
	return applied
}

// makeDurable syncs what a manifest refers to, and notes in it up to where that is durable.
func (e *Engine) makeDurable(m *manifest.Manifest) error {
	// Before the series table: what was written before a cut has its series there.
	// A replay, which knows the cut from its beginning, would not define them.
	cuts := e.shardCuts()
	pages, err := e.pages.Sync()
	if err != nil {
		return fmt.Errorf("sync the page log: %w", err)
	}
	if emptied := e.index.EmptiedNow(); emptied.Any() {
		if err := e.options.SyncLog(); err != nil {
			return fmt.Errorf("sync the log: %w", err)
		}
		e.index.ClearEmptied(emptied)
	}
	// After the pages: every series that a page names is in the table by now.
	state, err := e.index.Sync()
	if err != nil {
		return fmt.Errorf("sync the series table: %w", err)
	}
	if err := e.options.SyncLog(); err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	if e.index.DropsKeys() {
		m.LetDropKeys()
	}
	m.Pages, m.Index, m.RetentionCutMs, m.RuleCuts = pages, state, cuts.WholeMs, cuts.Lists()
	return nil
}
