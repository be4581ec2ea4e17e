package flush

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// flusher sorts one generation of the page log into segments, one for each
// partition.
type flusher struct {
	o      Options
	sorter pageSorter
	stones manifest.Tombstones
	marks  []manifest.LowWater
	out    Writers

	payload []byte
	extents []pageExtent
	raw     codec.Columns
	sorted  codec.Columns
	order   []int32
}

const (
	// A flush loads 1/sortShare of a generation at a time, within bounds: so many
	// times the file is read, and one time more.
	sortShare    = 8
	sortBytesMin = 64 << 10
	sortBytesMax = 16 << 20
	sortPart     = 4 // of the memory of maintenance: there are keys and samples beside the pages
)

// Options configure a flush.
type Options struct {
	FS     vfs.FS
	Files  *manifest.Store
	Shards int
	// GenerationBytesMax and MaintenanceBytes bound the memory for sorting.
	GenerationBytesMax, MaintenanceBytes int64
	SpanMax                              func() segment.Span                            // the widest partition that retention wants
	Cut                                  func(shard uint16) int64                       // before which samples are dropped
	Stored                               func(shard uint16, id uint32, timesMs []int64) // called for samples that have been written
	Corrupt                              func(error)                                    // called for pages that cannot be read
	BeforeFinish                         func() error                                   // is called before segments are finished
	Yield                                func()                                         // is called often, so that others may have the processor
	Check                                bool                                           // of bounds: see invariants
}

// Result is what a generation has become.
type Result struct {
	Segments   []segment.Meta
	Samples    int64
	Tombstones uint64 // up to this number are merged into the segments
}

// Generation sorts a generation of the page log, which has ended, into segments, one for each partition.
// After an error there are none.
func Generation(o Options, pin *pagelog.Pin, generation uint32) (Result, error) {
	f := newFlusher(o, pin, generation)
	metas, err := f.run()
	if err != nil {
		return Result{}, errors.Join(err, f.out.Abort())
	}
	return Result{Segments: metas, Samples: f.out.samples, Tombstones: f.stones.Last()}, nil
}

func newFlusher(o Options, pin *pagelog.Pin, generation uint32) *flusher {
	sequence := manifest.SequenceOf(generation)
	options := func(p segment.Partition) segment.Options {
		return segment.Options{FS: o.FS, Dir: o.Files.Folder(), Partition: p, SequenceLow: sequence, SequenceHigh: sequence, Yield: o.Yield}
	}
	// A tombstone that stands in this generation, which has ended, has been published by now.
	v := o.Files.CurrentWithTombstones()
	return &flusher{
		o: o, stones: v.Tombstones, marks: v.LowWater, out: NewWriters(o.Files.Remove, o.SpanMax(), options),
		sorter: pageSorter{
			pin: pin, generation: generation, shards: o.Shards, yield: o.Yield, check: o.Check,
			bytesMax: min(max(o.GenerationBytesMax/sortShare, sortBytesMin), sortBytesMax, o.MaintenanceBytes/sortPart),
		},
	}
}

func (f *flusher) run() ([]segment.Meta, error) {
	ranges, err := f.sorter.ranges()
	if err != nil {
		return nil, err
	}
	pass := func() error {
		for i := range ranges {
			if err := f.sorter.load(&ranges[i]); err != nil {
				return err
			}
			if err := f.sorter.eachSeries(f.writeSeries); err != nil {
				return err
			}
			if f.out.TooNarrow() {
				break
			}
		}
		return nil
	}
	return f.out.Run(pass, func() error {
		if err := f.o.BeforeFinish(); err != nil {
			return err
		}
		return f.out.Finish()
	})
}

// writeSeries writes the loaded pages of a series, which are in order of position.
func (f *flusher) writeSeries(k seriesKey, pages []sealedPage) error {
	for below := &f.marks[k.shard()]; len(pages) > 0 && below.HidesPage(f.sorter.generation, pages[0].ref.Offset()); {
		pages = pages[1:]
	}
	if len(pages) <= pagesAtOnce {
		return f.writeRange(k, pages, segment.AllTime())
	}
	f.measure(pages)
	return eachRange(f.extents, samplesAtOnce, func(within segment.TimeRange, numbers []int32) error {
		inRange := make([]sealedPage, len(numbers))
		for i, n := range numbers {
			inRange[i] = pages[n]
		}
		return f.writeRange(k, inRange, within)
	})
}

// measure fills f.extents. Pages that cannot be read take no time; what is wrong
// with them is told when they are written.
func (f *flusher) measure(pages []sealedPage) {
	f.extents = f.extents[:0]
	for i := range pages {
		payload, err := f.sorter.payload(&pages[i], &f.payload)
		f.raw.Reset()
		if err == nil {
			err = codec.DecodePage(payload, &f.raw)
		}
		if err != nil {
			f.extents = append(f.extents, pageExtent{number: int32(i), within: segment.NoTime()})
			continue
		}
		f.extents = append(f.extents, pageExtent{number: int32(i), samples: int32(f.raw.Len()), within: spanOf(f.raw.Times)})
	}
}

// writeRange writes what pages of a series have within a span of time.
func (f *flusher) writeRange(k seriesKey, pages []sealedPage, within segment.TimeRange) error {
	f.readRange(k, pages, within)
	shard, id := k.shard(), k.id()
	return f.out.Add(shard, id, &f.sorted, func(timesMs []int64) {
		f.o.Stored(shard, id, timesMs)
	})
}

// readRange decodes pages of a series into f.sorted, in order of time, the later
// write winning.
func (f *flusher) readRange(k seriesKey, pages []sealedPage, within segment.TimeRange) {
	shard, id := k.shard(), k.id()
	stones := f.stones.Of(shard, id)
	f.raw.Reset()
	for i := range pages {
		payload, err := f.sorter.payload(&pages[i], &f.payload)
		if err != nil {
			f.o.Corrupt(err)
			continue
		}
		before := f.raw.Len()
		if err := codec.DecodePage(payload, &f.raw); err != nil {
			f.o.Corrupt(fmt.Errorf("page of series %d of shard %d: %w", id, shard, err))
			continue
		}
		if hide := manifest.HiddenInPage(stones, f.sorter.generation, pages[i].ref.Offset()); len(hide) > 0 {
			manifest.DropHidden(&f.raw, before, hide)
		}
		if within != segment.AllTime() {
			codec.KeepColumns(&f.raw, before, within.Has)
		}
	}
	codec.SortColumns(&f.raw, &f.sorted, &f.order)
	if cut := f.o.Cut(shard); cut != retention.NoCut {
		n, _ := slices.BinarySearch(f.sorted.Times, cut)
		f.sorted = codec.Columns{Times: f.sorted.Times[n:], Mantissas: f.sorted.Mantissas[n:], Scales: f.sorted.Scales[n:]}
	}
}
