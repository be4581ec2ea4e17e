package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/shardfile"
)

// replacement is a replica with the files that it brings.
type replacement struct {
	Replica
	files  []string // paths of segments without a number, in the order of writing
	stones []streamTombstone
}

// DropShard removes the replica of a shard: at once it is neither seen nor replayed,
// and its bytes go as flushes and compactions come by. Its series keep their ids,
// should it come back. LogPosition is the end of the log: entries of the shard that
// stand before it are never applied again. No entry of the shard may be applied
// meanwhile.
//
// Errors are those of the disk. After one of them the replica is there or, should
// the manifest be in doubt, may be gone after the next start; a repetition settles it.
func (m *Mover) DropShard(shard uint16, logPosition uint64) error {
	_, leave, err := m.enter(context.Background(), shard, entry.ErrInvalid)
	if err != nil {
		return err
	}
	defer leave()
	err = m.replace(shard, &replacement{Replica: Replica{
		CutMs: retention.NoCut, Batches: dedup.NewTable(), LogPosition: logPosition, Dropped: true,
	}})
	if err != nil {
		return fmt.Errorf("drop shard %d: %w", shard, err)
	}
	return nil
}

// replace publishes another replica of a shard, in one step. The files of r are
// gone or have their final names when it returns.
func (m *Mover) replace(shard uint16, r *replacement) error {
	o := &m.o
	edit := o.Files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return err
	}
	present := edit.Present()
	r.Number = present.LowWater[shard].Number + 1
	below := manifest.LowWater{LogPosition: r.LogPosition, Number: r.Number, Dropped: r.Dropped}
	below.Generation, below.Offset = o.Pages.End()
	var err error
	if below.Sequence, err = edit.Sequences(below.Generation, len(r.files)); err != nil {
		return err
	}
	if err = o.Hit(FailInstallRenumber); err != nil {
		return err
	}
	readers, err := o.Files.Adopt(r.files, below.Sequence)
	if err != nil {
		return err
	}
	stones := m.numberTombstones(shard, r.stones, below.Sequence)
	if !r.Dropped {
		defer o.Index.UnstageForgotten()
		if err := o.Index.StageForgotten(shard, r.Forgotten); err != nil {
			return errors.Join(err, manifest.Unpublished(err, readers))
		}
	}
	batches, err := o.BatchIDs.Stage(present.Applied, shard, dedup.Form{Encoded: r.Batches.Encode(), Entry: r.Applied})
	var exemplars shardfile.Staged
	if err == nil {
		exemplars = o.Exemplars.Stage(shard, &r.Exemplars)
	}
	if err == nil {
		err = edit.Publish(FailReplacePublish, func(p *manifest.Manifest) {
			p.LowWater, p.Applied, p.RetentionCutMs = slices.Clone(p.LowWater), slices.Clone(p.Applied), slices.Clone(p.RetentionCutMs)
			p.LowWater[shard], p.Applied[shard], p.RetentionCutMs[shard] = below, r.Applied, r.CutMs
			p.RuleCuts = retention.WithCuts(p.RuleCuts, len(o.Shards), shard, r.Rules.Lists())
			p.ThinCuts = retention.WithCuts(p.ThinCuts, len(o.Shards), shard, r.Thin.Lists())
			p.Tombstones = p.Tombstones.Replaced(shard, stones)
			p.Segments = slices.Clone(p.Segments)
			for _, reader := range readers {
				p.Segments = append(p.Segments, *reader.Meta())
			}
			p.BatchFile, p.ExemplarFile = batches.Name, exemplars.Name
			if len(r.Forgotten) > 0 {
				p.LetForget()
			}
			if r.Thin != nil { // there may be hours as samples before its cuts
				p.LetThin()
				p.LetTakeHours()
			}
		})
	}
	if err != nil {
		return errors.Join(err, manifest.Unpublished(err, readers))
	}
	o.BatchIDs.Keep(batches)
	o.Exemplars.Keep(exemplars)
	o.Shards[shard].Replace(&r.Replica, func() { edit.ReplicaReplaced(shard, readers, stones) })
	return o.Hit(FailReplaceDone)
}

// numberTombstones returns the tombstones of a stream numbers of this node.
func (m *Mover) numberTombstones(shard uint16, stones []streamTombstone, first uint64) (numbered manifest.Tombstones) {
	for i := range stones {
		t := &stones[i]
		numbered = append(numbered, manifest.Tombstone{Shard: shard, IDs: t.ids, FromMs: t.fromMs, ToMs: t.toMs, Sequence: first + t.hides, Entry: t.entry})
	}
	m.o.Files.NumberTombstones(numbered)
	return numbered
}
