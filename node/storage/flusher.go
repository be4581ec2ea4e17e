package storage

import (
	"errors"
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
// partition. Samples that spread over more partitions than may be written at once
// are taken in further passes.
type flusher struct {
	engine   *Engine
	sorter   pageSorter
	stones   tombstones
	floors   []floor
	writers  map[segment.Partition]*segment.Writer
	done     map[segment.Partition]bool // written in an earlier pass
	more     bool                       // some samples belong to a later pass
	span     segment.Span
	samples  int64
	finished []segment.Meta

	payload []byte
	extents []pageExtent
	raw     codec.Columns
	sorted  codec.Columns
	order   []int32
}

const (
	// partitionsAtOnce bounds the segments that a flush writes at one time. Backfill
	// that would need more partitions of two hours gets days, then months.
	partitionsAtOnce = 48
	// A flush loads 1/sortShare of a generation at a time, within bounds: so many
	// times the file is read, and one time more.
	sortShare    = 8
	sortBytesMin = 64 << 10
	sortBytesMax = 16 << 20
)

func newFlusher(e *Engine, pin *pagelog.Pin, generation uint32) *flusher {
	return &flusher{
		engine: e, span: segment.SpanTwoHours, writers: map[segment.Partition]*segment.Writer{},
		sorter: pageSorter{
			pin: pin, generation: generation, shards: len(e.shards),
			bytesMax: min(max(e.options.GenerationBytesMax/sortShare, sortBytesMin), sortBytesMax),
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
	f.done = map[segment.Partition]bool{}
	for pass := 0; ; pass++ {
		f.more = false
		for i := range ranges {
			if err := f.sorter.load(&ranges[i]); err != nil {
				return nil, err
			}
			if err := f.sorter.eachSeries(f.writeSeries); err != nil {
				return nil, err
			}
			if f.tooNarrow(pass) {
				break
			}
		}
		if f.tooNarrow(pass) {
			// Too many narrow partitions: start again with wider ones.
			if err := f.abort(); err != nil {
				return nil, err
			}
			f.span++
			f.samples = 0
			pass = -1
			continue
		}
		if err := f.finish(); err != nil {
			return nil, err
		}
		if !f.more {
			return f.finished, nil
		}
	}
}

func (f *flusher) tooNarrow(pass int) bool { return pass == 0 && f.more && f.span < segment.SpanMonth }

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
	times := f.sorted.Times
	for from := 0; from < len(times); {
		p := segment.PartitionOf(times[from], f.span)
		to := from + 1
		for to < len(times) && times[to] < p.EndMs {
			to++
		}
		w, err := f.writer(p)
		if err != nil {
			return err
		}
		if w != nil {
			part := codec.Columns{Times: times[from:to], Mantissas: f.sorted.Mantissas[from:to], Scales: f.sorted.Scales[from:to]}
			if err := w.Add(shard, id, &part); err != nil {
				return err
			}
			f.samples += int64(to - from)
			if local, ok := f.engine.index.Local(shard, series.ID(id)); ok {
				f.engine.index.MarkActive(index.MonthOf(p.StartMs), local)
			}
		}
		from = to
	}
	return nil
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

// writer gives the writer of a partition, or nil if its turn is not now.
func (f *flusher) writer(p segment.Partition) (*segment.Writer, error) {
	if w := f.writers[p]; w != nil || f.done[p] {
		return w, nil
	}
	if len(f.writers) >= partitionsAtOnce {
		f.more = true
		return nil, nil
	}
	w, err := segment.Create(segment.Options{
		FS: f.engine.fs, Dir: path.Join(f.engine.dir, dirSegments), Partition: p,
		SequenceLow: sequenceOf(f.sorter.generation), SequenceHigh: sequenceOf(f.sorter.generation),
	})
	if err != nil {
		return nil, err
	}
	f.writers[p] = w
	return w, nil
}

func (f *flusher) finish() error {
	if err := f.engine.failpoints.Hit(FailFlushFinish); err != nil {
		return err
	}
	for p, w := range f.writers {
		meta, err := w.Finish()
		if err != nil {
			return err
		}
		delete(f.writers, p)
		f.done[p] = true
		f.finished = append(f.finished, meta)
	}
	return nil
}

// abort removes all segments, finished or not.
func (f *flusher) abort() error {
	problems := []error{f.engine.removeSegments(f.finished)}
	f.finished = nil
	for p, w := range f.writers {
		problems = append(problems, w.Abort())
		delete(f.writers, p)
	}
	return errors.Join(problems...)
}
