package storage

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// RetentionCut returns the time before which all shards that have a replica here have
// cut off everything.
func (e *Engine) RetentionCut() int64 {
	cut, hosted := int64(math.MaxInt64), false
	for _, s := range e.shards {
		s.mu.Lock()
		applied := s.mu.applied
		s.mu.Unlock()
		if applied > 0 {
			cut, hosted = min(cut, s.cutMs.Load()), true
		}
	}
	if !hosted {
		return retention.NoCut
	}
	return cut
}

// ShardCut returns the time before which a shard has cut off everything.
func (e *Engine) ShardCut(shard uint16) int64 { return e.shards[shard].cutMs.Load() }

// Retain drops the segments of which all shards have cut off everything, and
// forgets series that have no sample left.
func (e *Engine) Retain() error {
	defer e.Pause()()
	cut := e.RetentionCut()
	if cut == retention.NoCut {
		return nil
	}
	// A shard may be installed at any time, with an earlier cut, but not while Expire asks.
	if err := e.Expire(e.RetentionCut); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	if err := e.forgetSeriesBefore(cut); err != nil {
		return err
	}
	return e.hit(FailRetentionDone)
}

// AllBefore reports whether there are samples until now, and all of them are of days before a
// cut. Those that seem to be from the future say nothing.
func (e *Engine) AllBefore(cutMs, nowMs int64) bool {
	newest, ok := e.index.NewestDay(index.DayOf(nowMs))
	return ok && newest < index.DayOf(cutMs)
}

// DropBefore drops the segments that end before cutMs though no shard has been
// cut there: for a full disk, on which no entry can be logged that says so. What
// is left before cutMs goes with a later cut.
func (e *Engine) DropBefore(cutMs int64) error {
	defer e.Pause()()
	e.suspendHistories(true)
	defer e.suspendHistories(false)
	if err := e.Expire(func() int64 { return cutMs }); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	return nil
}

// forgetSeriesBefore forgets the activity of the months before the cut. A series
// that has samples left is marked in a later month: by the flush if they are in
// segments, by refreshHeads if they are newer than that.
func (e *Engine) forgetSeriesBefore(cutMs int64) error {
	month := index.MonthOf(cutMs)
	if month <= e.monthsDropped {
		return nil
	}
	if err := e.Flush(); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	const inSlice = 4096
	for _, s := range e.shards {
		for id, n := uint32(0), e.index.ShardSeries(s.number); id < n; id += inSlice {
			s.refreshHeads(id, min(n, id+inSlice), cutMs)
		}
	}
	// A shard may have been installed since the cut was taken, or be about to: its samples may be
	// from before it, and are marked.
	defer e.files.Edit().End()
	cutMs = e.CutArriving(min(cutMs, e.RetentionCut()))
	if month = index.MonthOf(cutMs); month > e.monthsDropped {
		e.index.DropMonthsBefore(month)
		e.monthsDropped = month
	}
	return nil
}

// refreshHeads marks the series of which the newest sample is kept as active, and
// retires the heads of the others, so that their next sample marks them again:
// see page.Options.
func (s *shard) refreshHeads(fromID, toID uint32, cutMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hot page.Hot
	for id := fromID; id < toID; id++ {
		timeMs, _, ok := s.mu.set.Last(id)
		if !ok {
			continue
		}
		if timeMs < cutMs {
			s.mu.set.Snapshot(id, &hot)
			if len(hot.Main) == 0 && len(hot.OutOfOrder) == 0 && hot.Sealed == page.NoPage {
				s.mu.set.Retire(id)
				continue
			}
			timeMs = cutMs // a page that is not flushed yet: not before the next month
		}
		s.engine.index.MarkActiveWithin(s.number, series.ID(id), timeMs, timeMs)
	}
}
