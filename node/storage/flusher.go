package storage

import (
	"fmt"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// flusher sorts one generation of the page log into segments, one for each
// partition.
type flusher struct {
	engine *Engine
	sorter pageSorter
	stones tombstones
	floors []floor
	out    partitionWriters

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

func newFlusher(e *Engine, pin *pagelog.Pin, generation uint32) *flusher {
	options := func(p segment.Partition) segment.Options {
		return segment.Options{
			FS: e.fs, Dir: path.Join(e.dir, dirSegments), Partition: p,
			SequenceLow: sequenceOf(generation), SequenceHigh: sequenceOf(generation),
		}
	}
	return &flusher{
		engine: e, out: newPartitionWriters(e, options),
		sorter: pageSorter{
			pin: pin, generation: generation, shards: len(e.shards),
			bytesMax: min(max(e.options.GenerationBytesMax/sortShare, sortBytesMin), sortBytesMax, e.options.MaintenanceBytes/sortPart),
		},
	}
}

func (f *flusher) run() ([]segment.Meta, error) {
	// Behind the lock: a tombstone that stands in this generation, which has ended,
	// has been published by now.
	f.engine.update.Lock()
	v := f.engine.versions.peek()
	f.stones, f.floors = v.tombstones, v.floors
	f.engine.update.Unlock()
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
			if f.out.tooNarrow() {
				break
			}
		}
		return nil
	}
	return f.out.run(pass, func() error {
		if err := f.engine.failpoints.Hit(FailFlushFinish); err != nil {
			return err
		}
		return f.out.finish()
	})
}

// writeSeries writes the loaded pages of a series, which are in order of position.
func (f *flusher) writeSeries(k seriesKey, pages []sealedPage) error {
	for below := &f.floors[k.shard()]; len(pages) > 0 && below.hidesPage(f.sorter.generation, pages[0].ref.Offset()); {
		pages = pages[1:]
	}
	if len(pages) <= pagesAtOnce {
		return f.writeStretch(k, pages, allTime)
	}
	f.measure(pages)
	return eachStretch(f.extents, samplesAtOnce, func(within span, numbers []int32) error {
		stretch := make([]sealedPage, len(numbers))
		for i, n := range numbers {
			stretch[i] = pages[n]
		}
		return f.writeStretch(k, stretch, within)
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
			f.extents = append(f.extents, pageExtent{number: int32(i), within: noTime})
			continue
		}
		f.extents = append(f.extents, pageExtent{number: int32(i), samples: int32(f.raw.Len()), within: spanOf(f.raw.Times)})
	}
}

// writeStretch writes what pages of a series have within a span of time.
func (f *flusher) writeStretch(k seriesKey, pages []sealedPage, within span) error {
	f.readStretch(k, pages, within)
	shard, id := k.shard(), k.id()
	return f.out.add(shard, id, &f.sorted, func(timesMs []int64) {
		if local, ok := f.engine.index.Local(shard, series.ID(id)); ok {
			eachDay(timesMs, func(day index.Day) { f.engine.index.MarkStored(day, local) })
		}
	})
}

// readStretch decodes pages of a series into f.sorted, in order of time, the later
// write winning.
func (f *flusher) readStretch(k seriesKey, pages []sealedPage, within span) {
	shard, id := k.shard(), k.id()
	stones := f.stones.of(shard, id)
	f.raw.Reset()
	for i := range pages {
		payload, err := f.sorter.payload(&pages[i], &f.payload)
		if err != nil {
			f.engine.reportCorruption(err)
			continue
		}
		before := f.raw.Len()
		if err := codec.DecodePage(payload, &f.raw); err != nil {
			f.engine.reportCorruption(fmt.Errorf("page of series %d of shard %d: %w", id, shard, err))
			continue
		}
		if hide := hiddenInPage(stones, f.sorter.generation, pages[i].ref.Offset()); len(hide) > 0 {
			dropHidden(&f.raw, before, hide)
		}
		if within != allTime {
			keepColumns(&f.raw, before, within.has)
		}
	}
	sortColumns(&f.raw, &f.sorted, &f.order)
	if cut := f.engine.shards[shard].cutMs.Load(); cut != noCut {
		n, _ := slices.BinarySearch(f.sorted.Times, cut)
		f.sorted = codec.Columns{Times: f.sorted.Times[n:], Mantissas: f.sorted.Mantissas[n:], Scales: f.sorted.Scales[n:]}
	}
}
