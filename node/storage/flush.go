package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Flush starts a new generation of the page log and turns all older ones into
// segments of level 0.
func (e *Engine) Flush() error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	err := e.flushLocked()
	e.pace.ran(err)
	return err
}

// flushLocked is Flush under the maintenance lock.
func (e *Engine) flushLocked() error {
	if err := e.settleManifest(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Without a new generation (no room, or scans hold too many) the older ones
	// are flushed all the same: that is what makes room.
	var rollErr error
	sizes := e.pages.Sizes()
	if sizes[len(sizes)-1].Bytes > 0 {
		_, rollErr = e.pages.Roll()
		if errors.Is(rollErr, pagelog.ErrTooManyGenerations) {
			e.versions.sweeper.wait() // it may have some that readers have left
			_, rollErr = e.pages.Roll()
		}
		if rollErr != nil {
			rollErr = fmt.Errorf("flush: %w", rollErr)
		} else {
			e.pace.ended()
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

// Generations returns the number of generations of the page log that wait for a
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
	pin := e.pages.Pin()
	defer pin.Close()
	f := newFlusher(e, pin, number)
	metas, err := f.run()
	if err != nil {
		return errors.Join(err, f.out.abort())
	}
	readers, err := e.openNew(metas)
	if err != nil {
		return err
	}
	if int32(number-e.generationAtOpen) >= 0 {
		e.index.SettleDays() // what was there at the start is in segments, and marked
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
		v.tombstones = v.tombstones.needed(e.manifest.Segments, e.manifest.Purged, v.generationOldest, e.coming)
	}, dropped{pages: []func(){func() { e.dropGeneration(number) }}})
	e.pace.flushed()
	e.stats.flushes.Add(1)
	e.stats.flushedSamples.Add(f.out.samples)
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
