package transfer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// spillPart of the memory of maintenance bounds the pages and samples of one series that a spill
// holds.
const spillPart = 2

// spill writes what the page log and the hot pages have of one shard into scratch
// segments, one for each partition, for an export: they are read once and removed, so
// nothing of them is made durable, and neither manifest nor page log knows of them.
// Entries may be applied meanwhile, of which any part may be in the segments.
type spill struct {
	reader *read.Reader
	files  *manifest.Store
	cutMs  int64 // samples before it are gone
	shard  uint16
	out    flush.Writers
	series series.ID // ids below it have been given
	gone   *index.Forgotten

	raw    codec.Columns
	sorted codec.Columns
	order  []int32
}

// newSpill begins a spill of what the segments of the current version, that of its reader, do not
// have. All that is to be in it has been applied. Number tells it from other spills of the process.
func newSpill(m *Mover, shard uint16, number uint64) *spill {
	o := &m.o
	newest, _ := o.Pages.End()
	options := func(p segment.Partition) segment.Options {
		return segment.Options{
			FS: o.FS, Dir: o.Files.Folder(), Partition: p,
			SequenceLow: manifest.SequenceOf(newest), SequenceHigh: manifest.SequenceOf(newest),
			Scratch: fmt.Sprintf("export-%d-%d-%x-%x", shard, number, uint64(p.StartMs), uint64(p.EndMs)),
		}
	}
	return &spill{
		reader: o.Source.NewReader(o.MaintenanceBytes / spillPart), files: o.Files, cutMs: max(o.Shards[shard].Cut(), scan.TimeMsMin), shard: shard,
		out: flush.NewWriters(o.Files.Remove, o.SpanMax(), options), series: series.ID(o.Index.ShardSeries(shard)),
		gone: o.Shards[shard].Forgotten(),
	}
}

// run returns the segments, opened. Their files go with their last reference. Errors:
// series.ErrUnavailable when the shard is replaced, those of the disk, and those that
// a flush goes around: see flushHelps.
func (s *spill) run() (readers []*segment.Reader, err error) {
	metas, err := s.out.Run(s.pass, s.out.Finish)
	if err == nil {
		readers, err = s.files.OpenNew(metas)
		s.out.Forget() // openNew has removed them after an error
	}
	if err != nil {
		return nil, errors.Join(err, s.out.Abort())
	}
	for _, r := range readers {
		r.Drop()
	}
	return readers, nil
}

func (s *spill) pass() error {
	for id := range s.series {
		if s.gone.Has(uint32(id)) {
			continue
		}
		if err := s.read(uint32(id)); err != nil {
			return err
		}
		if err := s.out.Add(s.shard, uint32(id), &s.sorted, nil); err != nil {
			return err
		}
		if s.out.TooNarrow() {
			break
		}
	}
	return nil
}

// read gathers in s.sorted what no segment has of a series, in order of time.
func (s *spill) read(id uint32) error {
	s.raw.Reset()
	err := s.reader.Unflushed(series.Ref{Shard: s.shard, ID: series.ID(id)}, func(payload []byte, hidden []segment.TimeRange) error {
		before := s.raw.Len()
		if err := codec.DecodePage(payload, &s.raw); err != nil {
			return err
		}
		if err := s.reader.CheckHeld(s.raw.Len()); err != nil {
			return err
		}
		if len(hidden) > 0 {
			manifest.DropHidden(&s.raw, before, hidden)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("series %d: %w", id, err)
	}
	codec.SortColumns(&s.raw, &s.sorted, &s.order)
	n, _ := slices.BinarySearch(s.sorted.Times, s.cutMs)
	s.sorted = codec.Columns{Times: s.sorted.Times[n:], Mantissas: s.sorted.Mantissas[n:], Scales: s.sorted.Scales[n:]}
	return nil
}

// flushHelps reports whether what kept pages from being read is gone when a flush has
// turned them into segments: a damaged page ends a series' chain, but a flush reads
// around it, and a flush writes a long series in stretches.
func flushHelps(err error) bool {
	var damaged *pagelog.CorruptError
	var long *scan.LimitError
	return errors.As(err, &damaged) || errors.As(err, &long) || errors.Is(err, codec.ErrCorrupt)
}
