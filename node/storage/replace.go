package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// replacement is what takes the place of a shard's replica.
type replacement struct {
	applied     uint64
	cutMs       int64
	rules       *retention.Table
	batches     dedup.Table
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
	_, leave, err := e.readers.Enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	if int(shard) >= len(e.shards) {
		return fmt.Errorf("%w: shard %d of %d", entry.ErrInvalid, shard, len(e.shards))
	}
	err = e.replaceShard(e.shards[shard], &replacement{
		cutMs: retention.NoCut, batches: dedup.NewTable(), logPosition: logPosition, dropped: true,
	})
	if err != nil {
		return fmt.Errorf("drop shard %d: %w", shard, err)
	}
	return nil
}

// replaceShard publishes another replica of a shard, in one step. The files of r are
// gone or have their final names when it returns.
func (e *Engine) replaceShard(s *shard, r *replacement) error {
	edit := e.files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return err
	}
	present := edit.Present()
	below := manifest.LowWater{LogPosition: r.logPosition, Number: present.LowWater[s.number].Number + 1, Dropped: r.dropped}
	below.Generation, below.Offset = e.pages.End()
	var err error
	if below.Sequence, err = edit.Sequences(below.Generation, len(r.files)); err != nil {
		return err
	}
	if err = e.failpoints.Hit(FailInstallRenumber); err != nil {
		return err
	}
	readers, err := e.files.Adopt(r.files, below.Sequence)
	if err != nil {
		return err
	}
	stones := e.numberTombstones(s.number, r.stones, below.Sequence)
	batches, err := e.stageBatches(present.Applied, map[int]dedup.Form{int(s.number): {Encoded: r.batches.Encode(), Entry: r.applied}})
	if err == nil {
		err = edit.Publish(FailReplacePublish, func(m *manifest.Manifest) {
			m.LowWater, m.Applied, m.RetentionCutMs = slices.Clone(m.LowWater), slices.Clone(m.Applied), slices.Clone(m.RetentionCutMs)
			m.LowWater[s.number], m.Applied[s.number], m.RetentionCutMs[s.number] = below, r.applied, r.cutMs
			m.RuleCuts = retention.WithCuts(m.RuleCuts, len(e.shards), s.number, r.rules.Lists())
			m.Tombstones = m.Tombstones.Replaced(s.number, stones)
			m.Segments = slices.Clone(m.Segments)
			for _, reader := range readers {
				m.Segments = append(m.Segments, *reader.Meta())
			}
			m.BatchFile = batches.Name
		})
	}
	if err != nil {
		return errors.Join(err, manifest.Unpublished(err, readers))
	}
	e.keepBatches(batches)
	e.swapReplica(edit, s, r, &below, readers, stones)
	return e.failpoints.Hit(FailReplaceDone)
}

// swapReplica lets scans and the log see what the manifest says.
func (e *Engine) swapReplica(edit *manifest.Edit, s *shard, r *replacement, below *manifest.LowWater, readers []*segment.Reader, stones manifest.Tombstones) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.set.Close()
	s.mu.outOfOrder = outOfOrder{}
	s.mu.applied, s.mu.backlog, s.mu.stall, s.mu.doubtful = r.applied, nil, nil, noDoubt
	s.mu.ledger = dedup.NewLedger(r.batches, r.applied)
	s.mu.number, s.mu.logPosition = below.Number, below.LogPosition
	s.mu.watches.restart(math.MaxInt64)
	s.cutMs.Store(r.cutMs)
	s.rules.Store(r.rules)
	s.absent.Store(r.dropped)
	edit.ReplicaReplaced(s.number, readers, stones)
}

// numberTombstones returns the tombstones of a stream numbers of this node.
func (e *Engine) numberTombstones(shard uint16, stones []streamTombstone, first uint64) (numbered manifest.Tombstones) {
	for i := range stones {
		t := &stones[i]
		numbered = append(numbered, manifest.Tombstone{Shard: shard, IDs: t.ids, FromMs: t.fromMs, ToMs: t.toMs, Sequence: first + t.hides, Entry: t.entry})
	}
	e.files.NumberTombstones(numbered)
	return numbered
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
