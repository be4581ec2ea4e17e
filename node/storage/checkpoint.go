package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// Names of the places where tests can make the engine fail.
const (
	FailCheckpointSeal    = "checkpoint/before-seal"
	FailCheckpointSync    = "checkpoint/before-sync"
	FailCheckpointBatches = "checkpoint/after-batch-ids"
	FailCheckpointPublish = "checkpoint/before-publish"
	FailCheckpointDone    = "checkpoint/after-publish"
	FailFlushSort         = "flush/before-sort"
	FailFlushFinish       = "flush/before-finish"
	FailFlushPublish      = "flush/before-publish"
	FailFlushDone         = "flush/after-publish"
	FailCompactMerge      = "compact/before-merge"
	FailCompactPublish    = "compact/before-publish"
	FailCompactDone       = "compact/after-publish"
	FailRetentionPublish  = "retention/before-publish"
	FailRetentionDone     = "retention/after-publish"
	FailInstallKeys       = "install/before-keys"
	FailInstallRenumber   = "install/before-renumber"
	FailReplacePublish    = "replace/before-publish"
	FailReplaceDone       = "replace/after-publish"
	FailSeriesCreate      = "series/before-create"
	FailSeriesCreated     = "series/after-create"
)

// MovementFailpoints lists the names of the places that only InstallShard and
// DropShard pass.
func MovementFailpoints() []string {
	return []string{FailInstallKeys, FailInstallRenumber, FailReplacePublish, FailReplaceDone}
}

// RepairFailpoints lists the names of the places that only RepairRange passes.
func RepairFailpoints() []string { return []string{FailRepairPublish} }

// Failpoints lists the names of the engine, series table and page log included.
func Failpoints() []string {
	names := []string{
		FailCheckpointSeal, FailCheckpointSync, FailCheckpointBatches, FailCheckpointPublish, FailCheckpointDone,
		FailFlushSort, FailFlushFinish, FailFlushPublish, FailFlushDone,
		FailCompactMerge, FailCompactPublish, FailCompactDone,
		FailRetentionPublish, FailRetentionDone, FailSeriesCreate, FailSeriesCreated,
	}
	return slices.Concat(names, MovementFailpoints(), RepairFailpoints(), index.Failpoints(), pagelog.Failpoints())
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

// sealPagesInSlice bounds how long a shard's lock is held at a time.
const sealPagesInSlice = 256

// Checkpoint seals what is older than the position, makes the page log and the
// series table durable, and publishes the position. After it returned nil the
// log before the position is not needed.
func (e *Engine) Checkpoint(c Checkpoint) error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if err := e.failpoints.Hit(FailCheckpointSeal); err != nil {
		return err
	}
	for _, s := range e.shards {
		if err := s.seal(c.SealThrough, c.SealAll); err != nil {
			return fmt.Errorf("checkpoint: shard %d: %w", s.number, err)
		}
	}
	if err := e.failpoints.Hit(FailCheckpointSync); err != nil {
		return err
	}
	applied := e.appliedAt(&c)
	batches, err := e.storeBatchTables(applied, nil)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := e.failpoints.Hit(FailCheckpointBatches); err != nil {
		return err
	}
	err = e.publishManifest(FailCheckpointPublish, func(m *manifest) {
		m.LogPosition = c.Position
		m.Applied = applied
		m.BatchFile = batches.file
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	e.keepBatchState(batches)
	for i, s := range e.shards {
		s.mu.Lock()
		s.mu.ledger.forget(applied[i])
		s.mu.Unlock()
	}
	e.stats.checkpoints.Add(1)
	return e.failpoints.Hit(FailCheckpointDone)
}

// appliedAt returns each shard's last entry that is not replayed from a checkpoint on.
// Of a shard that was dropped or installed since the checkpoint began, or while it
// did, it may know the former replica's; then all entries of the present one lie behind
// the position. A replica never takes the place of one that is further on, so that
// such an entry is either not as far as the present one began, or further than it is,
// or the same. The caller holds the maintenance lock.
func (e *Engine) appliedAt(c *Checkpoint) []uint64 {
	applied := slices.Clone(c.Applied)
	for i, s := range e.shards {
		f, first := &e.manifest.Floors[i], e.manifest.Applied[i]
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

func (s *shard) seal(epoch uint16, all bool) error {
	for {
		s.engine.makeRoom()
		s.mu.Lock()
		if len(s.mu.backlog) > 0 {
			s.mu.Unlock()
			return ErrStalled
		}
		var done bool
		var err error
		if all {
			done, err = true, s.mu.set.SealAll()
		} else {
			done, err = s.mu.set.SealThrough(epoch, sealPagesInSlice)
		}
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
	}
}

// publishManifest syncs what the manifest refers to, applies the change and
// replaces the file. The caller holds the maintenance lock. Errors: errInDoubt when
// the disk may have a manifest that names what the change would have added.
func (e *Engine) publishManifest(failBefore string, change func(*manifest)) error {
	err := e.replaceManifest(failBefore, change)
	switch {
	case err == nil:
		e.inDoubt = false
	case errors.Is(err, errInDoubt):
		e.inDoubt = true
	}
	return err
}

// settleManifest ends the doubt about the file. Until then nothing may be made or
// removed that could have the name of a segment that the file may name. The caller
// holds the maintenance lock.
func (e *Engine) settleManifest() error {
	if !e.inDoubt {
		return nil
	}
	return e.publishManifest(FailCheckpointPublish, func(*manifest) {})
}

func (e *Engine) replaceManifest(failBefore string, change func(*manifest)) error {
	// Before the pages: a tombstone that is named must not stand behind the end
	// of the page log, or it would hide what is written there later.
	v := e.versions.acquire()
	stones, oldest := v.tombstones, v.generationOldest
	e.versions.release(v)
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
		e.index.SettleEmptied(emptied)
	}
	// After the pages: every series that a page names is in the table by now.
	state, err := e.index.Sync()
	if err != nil {
		return fmt.Errorf("sync the series table: %w", err)
	}
	if err := e.options.SyncLog(); err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	// A generation that a scan still holds is on disk, but segments have its pages.
	pages.Generations = slices.DeleteFunc(pages.Generations, func(g pagelog.GenerationState) bool { return g.Number < oldest })
	m := *e.manifest
	m.Pages, m.Index, m.Tombstones, m.RetentionCutMs, m.RuleCuts = pages, state, stones, cuts.wholeMs, cuts.lists()
	change(&m)
	if err := e.failpoints.Hit(failBefore); err != nil {
		return err
	}
	if err := writeManifest(e.fs, e.dir, &m); err != nil {
		return err
	}
	e.setManifest(&m)
	return nil
}
