package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/node/storage/flush"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// generations are those of the page log: appends end one that is full, a flush turns all that have ended
// into segments, and one that no reader needs any more is dropped.
type generations struct {
	pages   *pagelog.Log
	files   *manifest.Store
	index   *index.Index
	shards  []*shard
	sorting flush.Options
	hit     func(failpoint string) error
	stats   *engineStats
	log     *slog.Logger

	rolling sync.Mutex // serialises the rolls of full generations
	pace    pace
	atOpen  uint32 // the last one that had pages when the folder was opened; 0: none had
}

// Flush starts a new generation of the page log and turns all older ones into
// segments of level 0.
func (g *generations) Flush() error {
	edit := g.files.Edit()
	defer edit.End()
	err := g.flush(edit)
	g.pace.ran(err)
	return err
}

func (g *generations) flush(edit *manifest.Edit) error {
	if err := edit.Resolve(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Without a new generation (no room, or scans hold too many) the older ones
	// are flushed all the same: that is what makes room.
	var rollErr error
	sizes := g.pages.Sizes()
	if sizes[len(sizes)-1].Bytes > 0 {
		if rollErr = g.endGeneration(); rollErr != nil {
			rollErr = fmt.Errorf("flush: %w", rollErr)
		}
		sizes = g.pages.Sizes()
	}
	v := g.files.Acquire()
	oldest := v.GenerationOldest
	g.files.Release(v)
	for _, size := range sizes[:len(sizes)-1] {
		if size.Number < oldest {
			continue // flushed before; a scan still reads it
		}
		if err := g.flushGeneration(edit, size.Number); err != nil {
			return errors.Join(rollErr, fmt.Errorf("flush generation %d: %w", size.Number, err))
		}
	}
	return rollErr
}

// endGeneration ends the generation that is being written.
func (g *generations) endGeneration() error {
	_, err := g.pages.Roll()
	if errors.Is(err, pagelog.ErrTooManyGenerations) {
		g.files.Sweeper.Wait() // it may have some that readers have left
		_, err = g.pages.Roll()
	}
	if err == nil {
		g.pace.ended()
	}
	return err
}

// Generations returns the number of generations of the page log that wait for a
// flush, the one that is being written included, and their bytes.
func (g *generations) Generations() (count int, bytes int64) {
	v := g.files.Acquire()
	oldest := v.GenerationOldest
	g.files.Release(v)
	for _, size := range g.pages.Sizes() {
		if size.Number >= oldest {
			count++
			bytes += size.Bytes
		}
	}
	return count, bytes
}

func (g *generations) flushGeneration(edit *manifest.Edit, number uint32) error {
	if err := g.hit(FailFlushSort); err != nil {
		return err
	}
	pin := g.pages.Pin()
	defer pin.Close()
	sorting := g.sorting
	var turn processor.Turn
	defer turn.Close()
	sorting.Yield = turn.Yield
	flushed, err := flush.Generation(sorting, pin, number)
	if err != nil {
		return err
	}
	readers, err := g.files.OpenNew(flushed.Segments)
	if err != nil {
		return err
	}
	if int32(number-g.atOpen) >= 0 {
		g.index.MarkDaysComplete() // what was there at the start is in segments, and marked
	}
	err = edit.Publish(FailFlushPublish, func(m *manifest.Manifest) {
		m.Segments = append(slices.Clone(m.Segments), flushed.Segments...)
		m.NotePurged(flushed.Segments, flushed.Tombstones)
		m.DropGenerations(func(generation uint32) bool { return generation <= number })
	})
	if err != nil {
		return errors.Join(err, manifest.Unpublished(err, readers))
	}
	edit.Flushed(number, readers, func() { g.dropGeneration(number) })
	g.pace.flushed()
	g.stats.flushes.Add(1)
	g.stats.flushedSamples.Add(flushed.Samples)
	return g.hit(FailFlushDone)
}

// dropGeneration deletes a generation that no scan reads any more.
func (g *generations) dropGeneration(number uint32) {
	for _, s := range g.shards {
		s.mu.Lock()
		s.mu.set.ForgetPages(func(ref uint32) bool { return pagelog.Ref(ref).Slot() != number%pagelog.Slots })
		s.mu.outOfOrder.forget(number)
		s.mu.Unlock()
	}
	if err := g.pages.Drop(number); err != nil {
		g.log.Error("a flushed generation of the page log stays on disk until the next start", "generation", number, "error", err)
	}
}

// makeRoom does what appends of pages would else have to wait for. Who will seal pages
// under the lock of a shard, for which readers wait, calls it before it takes the lock. What
// fails shows at the next append.
func (g *generations) makeRoom() {
	g.pages.WriteFull()
	if !g.pages.Ending() || !g.rolling.TryLock() {
		return // who holds the lock rolls
	}
	defer g.rolling.Unlock()
	if g.pages.Ending() {
		if _, err := g.pages.Roll(); err == nil {
			g.pace.ended()
		}
	}
}

func (g *generations) appendPage(shard uint16, id uint32, previous pagelog.Ref, payload []byte) (pagelog.Ref, error) {
	ref, err := g.pages.Append(shard, id, previous, payload)
	if !errors.Is(err, pagelog.ErrGenerationFull) {
		return ref, err
	}
	// All shards meet the end of a generation at once; one of them rolls.
	g.rolling.Lock()
	defer g.rolling.Unlock()
	ref, err = g.pages.Append(shard, id, previous, payload)
	if errors.Is(err, pagelog.ErrGenerationFull) {
		if _, err = g.pages.Roll(); err == nil {
			g.pace.ended()
			ref, err = g.pages.Append(shard, id, previous, payload)
		}
	}
	return ref, err
}

// FlushLags reports whether AwaitFlush may wait now.
func (g *generations) FlushLags() bool { return g.pace.waiting.Load() >= generationsWaitingMax }

// AwaitFlush waits, for a few seconds at most, while so many generations of the page
// log wait for a flush that the next writes might have to be refused. It does not wait
// after a flush that failed. Who writes calls it before it takes any lock. The error is
// that of the context.
func (g *generations) AwaitFlush(ctx context.Context) error {
	if !g.FlushLags() || g.pace.next() == nil {
		return nil
	}
	g.stats.flushWaits.Add(1)
	bound, cancel := context.WithTimeout(ctx, paceWait)
	defer cancel()
	for fewer := g.pace.next(); fewer != nil; fewer = g.pace.next() {
		select {
		case <-fewer:
		case <-bound.Done():
			return ctx.Err()
		}
	}
	return nil
}
