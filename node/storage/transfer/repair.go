package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// ErrRepair reports that a range cannot be repaired as it was asked for: it is wider than
// a month, or has hours of which only the last sample is kept, or files were merged meanwhile. The last passes.
var ErrRepair = errors.New("the range cannot be repaired now")

// RepairSource is where a repair gets a range from.
type RepairSource interface {
	// OpenRange returns what ExportRange writes for the shard and range elsewhere.
	OpenRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error)
	// AwaitApplied waits until this engine has applied an entry of the shard.
	AwaitApplied(ctx context.Context, shard uint16, index uint64) error
}

// Repair describes what a repair has brought.
type Repair struct {
	Shard        uint16
	FromMs, ToMs int64 // what was replaced, both inclusive
	Series       int64
	Samples      int64
	Suppressed   int // segments whose part of the shard counts no more
}

// rangeRepair replaces what a shard has in a partition.
//
// A mark divides what is here: what lies in segments of generations before it, and what
// comes later. All that lies before it comes from entries up to one index, and of each
// series and time the later writes lie behind the earlier ones. So when samples that are
// complete up to that index or a later one are put in the mark's place, and what was
// before it is left out, the entries that lie behind are a suffix of the log that is
// replayed over a later state, which is harmless: decision 3 of DECISIONS.md.
type rangeRepair struct {
	o          *Options
	shard      uint16
	partition  segment.Partition
	number     uint64 // of the shard's replica
	generation uint32 // pages of earlier ones lie before the mark
	sequence   uint64 // of what is put in the mark's place
	index      uint64 // entries that may lie before the mark
}

// RepairRange replaces what a shard has in the day, or else the month, that has all of
// [fromMs, toMs] in it by what another replica has, in one step; writes go on meanwhile.
// After an error everything is as it was. Errors: ErrRepair; ErrStream; ErrStalled;
// series.ErrUnavailable when the replica is gone, replaced or in doubt;
// series.ErrOverloaded while another repair runs; those of the source and the disk.
func (m *Mover) RepairRange(ctx context.Context, shard uint16, fromMs, toMs int64, from RepairSource) (Repair, error) {
	ctx, leave, err := m.enter(ctx, shard, series.ErrUnavailable)
	if err != nil {
		return Repair{}, err
	}
	defer leave()
	if !m.repairing.TryLock() {
		return Repair{}, fmt.Errorf("%w: another range is being repaired", series.ErrOverloaded)
	}
	defer m.repairing.Unlock()
	r := &rangeRepair{o: &m.o, shard: shard}
	// The source may not have deletes from now on yet, and a flush would forget those that hide
	// nothing of what is here now.
	defer m.o.Files.Await(shard)()
	done, err := r.run(ctx, fromMs, toMs, from)
	if err != nil {
		return Repair{}, fmt.Errorf("repair shard %d from %d to %d ms: %w", shard, fromMs, toMs, err)
	}
	return done, nil
}

func (r *rangeRepair) run(ctx context.Context, fromMs, toMs int64, from RepairSource) (done Repair, err error) {
	if err = r.refuseThinned(fromMs); err != nil { // before anything is flushed for it
		return done, err
	}
	if err = r.mark(fromMs, toMs); err != nil {
		return done, err
	}
	if err = r.refuseThinned(r.partition.StartMs); err != nil {
		return done, err
	}
	shard := r.shard
	done = Repair{Shard: shard, FromMs: r.partition.StartMs, ToMs: r.partition.EndMs - 1}
	stream, err := from.OpenRange(ctx, shard, done.FromMs, done.ToMs, r.index)
	if err != nil {
		return done, err
	}
	metas, end, err := r.receive(ctx, stream)
	if err = errors.Join(err, stream.Close()); err == nil && end.Index < r.index {
		err = fmt.Errorf("%w: it is complete up to entry %d, not %d", ErrStream, end.Index, r.index)
	}
	if err == nil {
		err = from.AwaitApplied(ctx, shard, end.Through)
	}
	if err == nil {
		err = r.refuseThinned(r.partition.StartMs) // the source may have had a cut by then, and sent the last samples of hours only
	}
	if err != nil {
		return done, errors.Join(err, r.o.Files.Remove(metas))
	}
	readers, err := r.o.Files.OpenNew(metas)
	if err != nil {
		return done, err
	}
	for _, reader := range readers {
		if err = errors.Join(err, reader.Verify(ctx)); err != nil {
			return done, errors.Join(err, manifest.Discard(readers))
		}
	}
	done.Series, done.Samples = end.Series, end.Samples
	done.Suppressed, err = r.publish(readers)
	return done, err
}

// refuseThinned returns an error for what has times of which only the last sample of each hour is kept: rollups tell of samples that
// no copy has any more, so a range of samples cannot bring them back.
func (r *rangeRepair) refuseThinned(fromMs int64) error {
	if fromMs >= r.o.Shards[r.shard].ThinCut() {
		return nil
	}
	return fmt.Errorf("%w: there are hours of which only the last sample is kept, and a repair brings no rollups; drain the node, and when it is empty start it on an empty data folder", ErrRepair)
}

// mark puts all that was applied before it into segments, and notes where they end.
func (r *rangeRepair) mark(fromMs, toMs int64) error {
	var err error
	if r.number, err = r.o.Shards[r.shard].SealAll(); err == nil {
		err = r.o.Flush()
	}
	if err != nil {
		return err
	}
	edit := r.o.Files.Edit()
	defer edit.End()
	r.generation = r.o.Files.Current().GenerationOldest
	segments := edit.Present().Segments
	if r.partition, err = partitionAround(segments, r.shard, fromMs, toMs); err != nil {
		return err
	}
	r.sequence = manifest.SequenceOf(r.generation-1) + 1
	for i := range segments {
		if high := segments[i].SequenceHigh; high < manifest.SequenceOf(r.generation) {
			r.sequence = max(r.sequence, high+1)
		}
	}
	if r.sequence >= manifest.SequenceOf(r.generation) {
		return fmt.Errorf("%w: no room for a segment before the next flush", series.ErrOverloaded)
	}
	r.index = r.o.Shards[r.shard].Applied()
	return nil
}

// partitionAround returns the day, or else the month, that covers a range and all segments
// of the shard that reach into it.
func partitionAround(segments []segment.Meta, shard uint16, fromMs, toMs int64) (segment.Partition, error) {
	for _, width := range [...]segment.Span{segment.SpanDay, segment.SpanMonth} {
		p := segment.PartitionOf(fromMs, width)
		if p.Has(toMs) && !slices.ContainsFunc(segments, func(m segment.Meta) bool {
			return shard >= m.ShardLow && shard <= m.ShardHigh && m.Overlaps(p) && !p.Covers(m.Partition)
		}) {
			return p, nil
		}
	}
	return segment.Partition{}, fmt.Errorf("%w: %d to %d ms of shard %d is in no day or month of its segments", ErrRepair, fromMs, toMs, shard)
}

// receive writes the stream to a segment; none, if it has no samples.
func (r *rangeRepair) receive(ctx context.Context, stream io.Reader) (metas []segment.Meta, end rangeEnd, err error) {
	in := &rangeReader{frames: frameReader{r: stream}}
	err = in.begin(rangeHeader{
		Format: rangeFormat, Shards: len(r.o.Shards), Shard: r.shard, FromMs: r.partition.StartMs, ToMs: r.partition.EndMs - 1,
	})
	if err != nil {
		return nil, end, err
	}
	w, err := segment.Create(segment.Options{
		FS: r.o.FS, Dir: r.o.Files.Folder(), Partition: r.partition, SequenceLow: r.sequence, SequenceHigh: r.sequence,
	})
	if err != nil {
		return nil, end, err
	}
	err = in.each(func(id uint32, columns *codec.Columns) error {
		if err := w.Add(r.shard, id, columns); err != nil {
			if errors.Is(err, segment.ErrOrder) {
				err = fmt.Errorf("%w: %w", ErrStream, err)
			}
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, end, errors.Join(err, w.Abort())
	}
	meta, err := w.Finish()
	if errors.Is(err, segment.ErrEmpty) {
		return nil, in.end, nil
	}
	if err != nil {
		return nil, end, err
	}
	return []segment.Meta{meta}, in.end, nil
}

// publish puts what came in the place of what was. The files are gone after an error.
func (r *rangeRepair) publish(readers []*segment.Reader) (suppressed int, err error) {
	// No merge may be under way: its output would have what is left out now.
	defer r.o.PauseMerges()()
	edit := r.o.Files.Edit()
	defer edit.End()
	out, err := r.before(edit.Present(), readers)
	if err == nil {
		err = edit.Resolve()
	}
	if err != nil {
		return 0, errors.Join(err, manifest.Discard(readers))
	}
	v := r.o.Files.Acquire()
	defer r.o.Files.Release(v)
	var dropped []manifest.Missing
	err = edit.Publish(FailRepairPublish, func(m *manifest.Manifest) {
		m.Suppressed = m.Suppressed.With(out, r.shard)
		m.Segments = slices.Clone(m.Segments)
		for i := range m.Segments {
			if slices.ContainsFunc(out, manifest.SameName(&m.Segments[i])) {
				m.Segments[i].Damaged = false // should another shard's part be, a merge finds it
			}
		}
		dropped = r.useless(v.Missing, v.LowWater, m.Suppressed)
		m.Segments = slices.DeleteFunc(m.Segments, func(meta segment.Meta) bool {
			return slices.ContainsFunc(dropped, func(d manifest.Missing) bool { return d.Meta.Name == meta.Name })
		})
		for _, reader := range readers {
			m.Segments = append(m.Segments, *reader.Meta())
		}
		m.Suppressed = m.Suppressed.Of(m.Segments)
	})
	if err != nil {
		return 0, errors.Join(err, manifest.Unpublished(err, readers))
	}
	r.show(edit, readers)
	for i := range dropped {
		if err := r.o.Files.Remove([]segment.Meta{dropped[i].Meta}); err != nil {
			r.o.Logger.Error("a damaged segment stays on disk until the next start", "segment", dropped[i].Meta.Name, "error", err)
		}
	}
	return len(out), nil
}

// before returns the segments whose part of the shard lies before the mark, and makes sure
// that none lies on both sides.
func (r *rangeRepair) before(present *manifest.Manifest, readers []*segment.Reader) (out []segment.Meta, err error) {
	shard, index := r.shard, r.o.Index
	if present.LowWater[shard].Number != r.number || !r.o.Shards[shard].Hosted() {
		return nil, read.ErrReplaced
	}
	for _, reader := range readers {
		err := reader.EachSeries(shard, func(info segment.SeriesInfo) error {
			if info.ID >= index.ShardSeries(shard) {
				return fmt.Errorf("%w: samples of series %d of %d", ErrStream, info.ID, index.ShardSeries(shard))
			}
			index.MarkActiveWithin(shard, series.ID(info.ID), info.MinMs, info.MaxMs)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	end := manifest.SequenceOf(r.generation)
	for i := range present.Segments {
		m := &present.Segments[i]
		switch {
		case !m.Overlaps(r.partition) || m.SequenceLow >= end:
		case m.SequenceHigh >= end || m.SequenceHigh >= r.sequence:
			return nil, fmt.Errorf("%w: segment %s was made meanwhile", ErrRepair, m.Name)
		case shard < m.ShardLow || shard > m.ShardHigh:
		case !r.partition.Covers(m.Partition):
			return nil, fmt.Errorf("%w: segment %s reaches out of it", ErrRepair, m.Name)
		default:
			out = append(out, *m)
		}
	}
	return out, nil
}

// useless returns the missing segments of which no shard that is here counts any more.
func (r *rangeRepair) useless(lost []manifest.Missing, marks []manifest.LowWater, out manifest.Suppressed) (gone []manifest.Missing) {
	v := &manifest.Visibility{LowWater: marks, Suppressed: out}
	for i := range lost {
		m := &lost[i].Meta
		needed := false
		for shard := int(m.ShardLow); shard <= int(m.ShardHigh) && shard < len(r.o.Shards); shard++ {
			needed = needed || !v.Hides(m, uint16(shard)) && r.o.Shards[shard].Holds()
		}
		if !needed {
			gone = append(gone, lost[i])
		}
	}
	return gone
}

// show makes the present manifest visible to scans.
func (r *rangeRepair) show(edit *manifest.Edit, readers []*segment.Reader) {
	within := segment.TimeRange{FromMs: r.partition.StartMs, ToMs: r.partition.EndMs - 1}
	r.o.Shards[r.shard].Repaired(within, func() { edit.Repaired(readers) })
}
