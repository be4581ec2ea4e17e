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

// Flush starts a new generation of the page log and turns all older ones into
// segments of level 0.
func (e *Engine) Flush() error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if err := e.settleManifest(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Without a new generation (no room, or scans hold too many) the older ones
	// are flushed all the same: that is what makes room.
	var rollErr error
	sizes := e.pages.Sizes()
	if sizes[len(sizes)-1].Bytes > 0 {
		if _, rollErr = e.pages.Roll(); rollErr != nil {
			rollErr = fmt.Errorf("flush: %w", rollErr)
		}
		sizes = e.pages.Sizes()
	}
	v := e.versions.acquire()
	oldest := v.generationOldest
	e.versions.release(v)
	for _, g := range sizes[:len(sizes)-1] {
		if g.Number < oldest {
			continue // flushed before; a scan still reads it
		}
		if err := e.flushGeneration(g.Number); err != nil {
			return errors.Join(rollErr, fmt.Errorf("flush generation %d: %w", g.Number, err))
		}
	}
	return rollErr
}

// Generations gives the number of generations of the page log that wait for a
// flush, the one that is being written included, and their bytes.
func (e *Engine) Generations() (count int, bytes int64) {
	v := e.versions.acquire()
	oldest := v.generationOldest
	e.versions.release(v)
	for _, g := range e.pages.Sizes() {
		if g.Number >= oldest {
			count++
			bytes += g.Bytes
		}
	}
	return count, bytes
}

func (e *Engine) flushGeneration(number uint32) error {
	if err := e.failpoints.Hit(FailFlushSort); err != nil {
		return err
	}
	f := &flusher{engine: e, generation: number, span: segment.SpanTwoHours, writers: map[segment.Partition]*segment.Writer{}, pin: e.pages.Pin()}
	defer f.pin.Close()
	metas, err := f.run()
	if err != nil {
		return errors.Join(err, f.abort())
	}
	readers, err := e.openNew(metas)
	if err != nil {
		return err
	}
	err = e.publishManifest(FailFlushPublish, func(m *manifest) {
		m.Segments = append(slices.Clone(m.Segments), metas...)
		m.purge(metas, f.stones.last())
		m.Pages.Generations = slices.DeleteFunc(slices.Clone(m.Pages.Generations), func(g pagelog.GenerationState) bool {
			return g.Number <= number
		})
	})
	if err != nil {
		return errors.Join(err, unpublished(err, readers))
	}
	e.changeVersion(func(v *version) {
		v.segments = orderSegments(append(slices.Clone(v.segments), readers...))
		v.generationOldest = number + 1
		v.tombstones = v.tombstones.needed(e.manifest.Segments, e.manifest.Purged, v.generationOldest)
	}, func() { e.dropGeneration(number) })
	e.stats.flushes.Add(1)
	e.stats.flushedSamples.Add(f.samples)
	return e.failpoints.Hit(FailFlushDone)
}

// dropGeneration deletes a generation that no scan reads any more.
func (e *Engine) dropGeneration(number uint32) {
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.set.ForgetPages(func(ref uint32) bool { return pagelog.Ref(ref).Slot() != number%pagelog.Slots })
		s.mu.disorder.forget(number)
		s.mu.Unlock()
	}
	if err := e.pages.Drop(number); err != nil {
		e.log.Error("a flushed generation of the page log stays on disk until the next start", "generation", number, "error", err)
	}
}

// openNew opens segments that have just been written, or removes them all.
func (e *Engine) openNew(metas []segment.Meta) ([]*segment.Reader, error) {
	var readers []*segment.Reader
	for i := range metas {
		r, err := segment.Open(e.fs, path.Join(e.dir, dirSegments, metas[i].Name))
		if err != nil {
			return nil, errors.Join(err, discard(readers), e.removeSegments(metas[i:]))
		}
		readers = append(readers, r)
	}
	return readers, nil
}

// removeSegments removes the files of segments that nobody has opened.
func (e *Engine) removeSegments(metas []segment.Meta) error {
	var problems []error
	for i := range metas {
		problems = append(problems, e.fs.Remove(path.Join(e.dir, dirSegments, metas[i].Name)))
	}
	return errors.Join(problems...)
}

// unpublished gives up segments whose manifest could not be written. Their files
// stay if the disk may have a manifest that names them.
func unpublished(err error, readers []*segment.Reader) error {
	if !errors.Is(err, errInDoubt) {
		return discard(readers)
	}
	var problems []error
	for _, r := range readers {
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// discard removes segments that nothing names.
func discard(readers []*segment.Reader) error {
	var problems []error
	for _, r := range readers {
		r.Drop()
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// orderSegments puts segments into the order of writing.
func orderSegments(readers []*segment.Reader) []*segment.Reader {
	slices.SortStableFunc(readers, func(a, b *segment.Reader) int {
		x, y := a.Meta(), b.Meta()
		if x.SequenceLow != y.SequenceLow {
			return int(int64(x.SequenceLow) - int64(y.SequenceLow))
		}
		return int(min(max(x.StartMs-y.StartMs, -1), 1))
	})
	return readers
}

// flusher sorts one generation of the page log into segments, one for each
// partition. Samples that spread over more partitions than may be written at once
// are taken in further passes.
type flusher struct {
	engine     *Engine
	generation uint32
	pin        *pagelog.Pin
	stones     tombstones
	writers    map[segment.Partition]*segment.Writer
	done       map[segment.Partition]bool // written in an earlier pass
	more       bool                       // some samples belong to a later pass
	span       segment.Span
	samples    int64
	finished   []segment.Meta

	payload []byte
	raw     codec.Columns
	sorted  codec.Columns
	order   []int32
}

// partitionsAtOnce bounds the segments that a flush writes at one time. Backfill
// that would need more partitions of two hours gets days, then months.
const partitionsAtOnce = 48

func (f *flusher) run() ([]segment.Meta, error) {
	// Behind the lock: a tombstone that stands in this generation, which has ended,
	// has been published by now.
	f.engine.update.Lock()
	f.stones = f.engine.versions.peek().tombstones
	f.engine.update.Unlock()
	byShard, err := f.collect()
	if err != nil {
		return nil, err
	}
	f.done = map[segment.Partition]bool{}
	for pass := 0; ; pass++ {
		f.more = false
		for shard, refs := range byShard {
			if err := f.writeShard(uint16(shard), refs); err != nil {
				return nil, err
			}
			if pass == 0 && f.more && f.span < segment.SpanMonth {
				break
			}
		}
		if pass == 0 && f.more && f.span < segment.SpanMonth {
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

// collect gives each shard's pages as id<<32 | reference, sorted: by series, and
// within a series by position.
func (f *flusher) collect() ([][]uint64, error) {
	byShard := make([][]uint64, len(f.engine.shards))
	err := f.pin.Each(f.generation, func(ref pagelog.Ref, p pagelog.Page) error {
		if int(p.Shard) < len(byShard) {
			byShard[p.Shard] = append(byShard[p.Shard], uint64(p.ID)<<32|uint64(ref))
		}
		return nil
	})
	for _, refs := range byShard {
		slices.Sort(refs)
	}
	return byShard, err
}

func (f *flusher) writeShard(shard uint16, refs []uint64) error {
	for from := 0; from < len(refs); {
		id := uint32(refs[from] >> 32)
		to := from + 1
		for to < len(refs) && uint32(refs[to]>>32) == id {
			to++
		}
		if err := f.writeSeries(shard, id, refs[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (f *flusher) writeSeries(shard uint16, id uint32, refs []uint64) error {
	if err := f.readSeries(shard, id, refs); err != nil {
		return err
	}
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

// readSeries decodes a series' pages of the generation into f.sorted, in order of
// time, the later write winning.
func (f *flusher) readSeries(shard uint16, id uint32, refs []uint64) error {
	stones := f.stones.of(shard, id)
	f.raw.Reset()
	for _, r := range refs {
		ref := pagelog.Ref(r)
		p, err := f.pin.Read(ref, f.payload[:0])
		if err != nil {
			f.engine.reportCorruption(err)
			continue
		}
		f.payload = p.Payload
		before := f.raw.Len()
		if err := codec.DecodePage(p.Payload, &f.raw); err != nil {
			f.engine.reportCorruption(fmt.Errorf("page of series %d of shard %d: %w", id, shard, err))
			continue
		}
		if hide := hiddenInPage(stones, f.generation, ref.Offset()); len(hide) > 0 {
			dropHidden(&f.raw, before, hide)
		}
	}
	sortColumns(&f.raw, &f.sorted, &f.order)
	if cut := f.engine.shards[shard].cutMs.Load(); cut != noCut {
		n, _ := slices.BinarySearch(f.sorted.Times, cut)
		f.sorted = codec.Columns{Times: f.sorted.Times[n:], Mantissas: f.sorted.Mantissas[n:], Scales: f.sorted.Scales[n:]}
	}
	return nil
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
		SequenceLow: uint64(f.generation), SequenceHigh: uint64(f.generation),
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
