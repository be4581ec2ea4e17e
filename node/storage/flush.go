package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// Flush starts a new generation of the page log and turns all older ones into
// segments of level 0.
func (e *Engine) Flush() error {
	edit := e.files.Edit()
	defer edit.End()
	err := e.flush(edit)
	e.pace.ran(err)
	return err
}

func (e *Engine) flush(edit *manifest.Edit) error {
	if err := edit.Resolve(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Without a new generation (no room, or scans hold too many) the older ones
	// are flushed all the same: that is what makes room.
	var rollErr error
	sizes := e.pages.Sizes()
	if sizes[len(sizes)-1].Bytes > 0 {
		_, rollErr = e.pages.Roll()
		if errors.Is(rollErr, pagelog.ErrTooManyGenerations) {
			e.files.Sweeper.Wait() // it may have some that readers have left
			_, rollErr = e.pages.Roll()
		}
		if rollErr != nil {
			rollErr = fmt.Errorf("flush: %w", rollErr)
		} else {
			e.pace.ended()
		}
		sizes = e.pages.Sizes()
	}
	v := e.files.Acquire()
	oldest := v.GenerationOldest
	e.files.Release(v)
	for _, g := range sizes[:len(sizes)-1] {
		if g.Number < oldest {
			continue // flushed before; a scan still reads it
		}
		if err := e.flushGeneration(edit, g.Number); err != nil {
			return errors.Join(rollErr, fmt.Errorf("flush generation %d: %w", g.Number, err))
		}
	}
	return rollErr
}

// Generations returns the number of generations of the page log that wait for a
// flush, the one that is being written included, and their bytes.
func (e *Engine) Generations() (count int, bytes int64) {
	v := e.files.Acquire()
	oldest := v.GenerationOldest
	e.files.Release(v)
	for _, g := range e.pages.Sizes() {
		if g.Number >= oldest {
			count++
			bytes += g.Bytes
		}
	}
	return count, bytes
}

func (e *Engine) flushGeneration(edit *manifest.Edit, number uint32) error {
	if err := e.hit(FailFlushSort); err != nil {
		return err
	}
	pin := e.pages.Pin()
	defer pin.Close()
	flushed, err := flush.Generation(e.flushOptions(), pin, number)
	if err != nil {
		return err
	}
	readers, err := e.files.OpenNew(flushed.Segments)
	if err != nil {
		return err
	}
	if int32(number-e.generationAtOpen) >= 0 {
		e.index.SettleDays() // what was there at the start is in segments, and marked
	}
	err = edit.Publish(FailFlushPublish, func(m *manifest.Manifest) {
		m.Segments = append(slices.Clone(m.Segments), flushed.Segments...)
		m.NotePurged(flushed.Segments, flushed.Tombstones)
		m.DropGenerations(func(generation uint32) bool { return generation <= number })
	})
	if err != nil {
		return errors.Join(err, manifest.Unpublished(err, readers))
	}
	edit.Flushed(number, readers, func() { e.dropGeneration(number) })
	e.pace.flushed()
	e.stats.flushes.Add(1)
	e.stats.flushedSamples.Add(flushed.Samples)
	return e.hit(FailFlushDone)
}

// dropGeneration deletes a generation that no scan reads any more.
func (e *Engine) dropGeneration(number uint32) {
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.set.ForgetPages(func(ref uint32) bool { return pagelog.Ref(ref).Slot() != number%pagelog.Slots })
		s.mu.outOfOrder.forget(number)
		s.mu.Unlock()
	}
	if err := e.pages.Drop(number); err != nil {
		e.log.Error("a flushed generation of the page log stays on disk until the next start", "generation", number, "error", err)
	}
}

func (e *Engine) flushOptions() flush.Options {
	return flush.Options{
		FS: e.fs, Files: e.files, Shards: len(e.shards),
		GenerationBytesMax: e.options.GenerationBytesMax, MaintenanceBytes: e.options.MaintenanceBytes,
		Cut:          func(shard uint16) int64 { return e.shards[shard].cutMs.Load() },
		Stored:       func(shard uint16, id uint32, timesMs []int64) { e.index.MarkStoredAt(shard, series.ID(id), timesMs) },
		Corrupt:      e.reportCorruption,
		BeforeFinish: func() error { return e.hit(FailFlushFinish) },
		Check:        invariants,
	}
}
