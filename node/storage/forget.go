package storage

import (
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// applyForgetLocked forgets series that had no samples when the leader looked. It means nothing unless it is the
// entry behind the one at which that was: what came between may have brought samples. The rule looks at nothing but
// numbers of entries, so that it is the same on each replica, and in each replay.
func (s *shard) applyForgetLocked(e *entry.Entry) error {
	after, ids, err := entry.ParseForgetBody(e.Body)
	if err != nil {
		return err
	}
	if e.Index != after+1 {
		s.engine.stats.forgetsLate.Add(1)
		return nil
	}
	known := s.engine.index.ShardSeries(s.number)
	fresh := ids[:0]
	for _, id := range s.trustedLocked(ids, "a forget") {
		if id < known {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	// No delete would reach them any more.
	s.deleteExemplarsLocked(e.Index, fresh, math.MinInt64, math.MaxInt64)
	cuts := make(map[uint32]int64, len(fresh)) // while the keys are there
	for _, id := range fresh {
		if cuts[id], err = s.CutOf(id); err != nil {
			// The leader has looked; a copy that cannot read the key does as others do.
			s.engine.reportCorruption(fmt.Errorf("shard %d: before which time samples of series %d are gone: %w", s.number, id, err))
			cuts[id] = math.MaxInt64
		}
	}
	if err := s.engine.index.Forget(s.number, fresh, e.Index); err != nil {
		return stalled(err)
	}
	for _, id := range fresh {
		if timeMs, _, known := s.mu.set.Last(id); known && timeMs >= cuts[id] {
			s.engine.reportCorruption(fmt.Errorf("shard %d: series %d has a sample at %d ms, but its leader saw none: it is forgotten",
				s.number, id, timeMs))
		}
		s.mu.set.Retire(id)
	}
	s.mu.set.ReleaseHeads(fresh)
	s.engine.stats.forgotten.Add(int64(len(fresh)))
	return nil
}

// refuseForgottenLocked returns an error if a batch names a series by an id that is forgotten: its writer has to
// send the key again. Nothing else decides, not even the cut, of which a replay knows more; and all is
// looked at before any of it is done.
func (s *shard) refuseForgottenLocked(batch []byte) error {
	if !s.forgotten.Any() {
		return nil
	}
	r := &s.mu.reader
	r.Reset(batch)
	for ok := true; ok; {
		_, ok = r.NextDefinition()
	}
	for r.NextRef() {
		if s.forgotten.Has(r.Ref) {
			s.engine.stats.batchesForgotten.Add(1)
			return fmt.Errorf("%w: series %d of shard %d is forgotten", series.ErrEra, r.Ref, s.number)
		}
	}
	return nil // what is no batch is found when it is applied
}

// HasForgotten reports whether an id of a shard is forgotten.
func (e *Engine) HasForgotten(shard uint16, id uint32) bool { return e.shards[shard].forgotten.Has(id) }

// LetsForget reports whether the format of the folder allows forgotten series.
func (e *Engine) LetsForget() bool { return e.forgets.Load() }

// LetForget makes the format of the folder one that allows forgotten series, so that an older program refuses it.
// Until then no entry that forgets may come into the log of a shard that has a replica here. Errors are those of the disk.
func (e *Engine) LetForget() error {
	return e.allow((*manifest.Manifest).Forgets, (*manifest.Manifest).LetForget)
}

// LetDropKeys allows that keys of series which are forgotten for good leave the disk. All nodes of the map understand files of shards
// without such keys then.
func (e *Engine) LetDropKeys() { e.index.LetDropKeys() }

// LetsThin and LetThin are for thinned hours what LetsForget and LetForget are for forgotten series.
func (e *Engine) LetsThin() bool { return e.thins.Load() }

// LetThin is described with LetsThin.
func (e *Engine) LetThin() error {
	return e.allow((*manifest.Manifest).Thins, (*manifest.Manifest).LetThin)
}

// TakesHours and LetTakeHours are for hours as samples what LetsForget and LetForget are for forgotten series.
func (e *Engine) TakesHours() bool { return e.hours.Load() }

// LetTakeHours is described with TakesHours.
func (e *Engine) LetTakeHours() error {
	return e.allow((*manifest.Manifest).TakesHours, (*manifest.Manifest).LetTakeHours)
}

// allow makes the format of the folder one that allows something, unless it does already.
func (e *Engine) allow(allowed func(*manifest.Manifest) bool, let func(*manifest.Manifest)) error {
	edit := e.files.Edit()
	defer edit.End()
	if allowed(edit.Present()) {
		return nil
	}
	if err := edit.Resolve(); err != nil {
		return err
	}
	return edit.Publish(manifest.FailPublish, let)
}

// EmptyWalk finds series that seem to have no samples, a part of the series table after the other.
type EmptyWalk struct{ next uint32 }

// Walk looks at up to most series behind those that it looked at last, and returns by shard the ids of those that have
// no marks since the series' cut, and nothing in segments, of shards that are wanted: up to found in all. They may have
// samples all the same: see EmptySeries. Done reports that it has come to the end, and begins again.
func (e *Engine) Walk(w *EmptyWalk, most uint32, found int, wanted func(shard uint16) bool) (ids map[uint16][]uint32, done bool) {
	ids = map[uint16][]uint32{}
	count := 0
	marked := e.markedSince()
	w.next = e.index.Unmarked(w.next, most, index.Days{From: e.latestCutDay(), To: index.DayMax}, func(shard uint16, id series.ID) bool {
		if int(shard) < len(e.shards) && wanted(shard) && !marked(shard, id) {
			ids[shard] = append(ids[shard], uint32(id))
			count++
		}
		return count < found
	})
	if done = w.next >= e.index.Len(); done {
		w.next = 0
	}
	r := e.NewReader(0)
	defer r.Close()
	for shard := range ids {
		slices.Sort(ids[shard])
		ids[shard] = slices.DeleteFunc(ids[shard], func(id uint32) bool { return e.isStored(r, shard, id) })
	}
	return ids, done
}

// isStored reports whether segments may have samples of a series that has no marks: then these are lost, and are made again. All
// copies would lose what the leader's marks have lost.
func (e *Engine) isStored(r *read.Reader, shard uint16, id uint32) bool {
	s, ref := e.shards[shard], series.Ref{Shard: shard, ID: series.ID(id)}
	cutMs, err := s.CutOf(id)
	if err != nil {
		return true
	}
	within := segment.TimeRange{FromMs: max(cutMs, scan.TimeMsMin), ToMs: scan.TimeMsMax}
	lost := false
	err = r.Stored(ref, within, func(block segment.TimeRange) {
		lost = true
		s.mu.Lock()
		defer s.mu.Unlock()
		e.index.MarkActiveWithin(shard, ref.ID, max(block.FromMs, within.FromMs), block.ToMs)
	})
	if lost {
		e.reportCorruption(fmt.Errorf("shard %d: series %d has samples on days for which it had no marks", shard, id))
	}
	return lost || err != nil
}

// latestCutDay returns the day of the latest cut of any series.
func (e *Engine) latestCutDay() index.Day {
	latest := int64(math.MinInt64)
	for _, s := range e.shards {
		latest = max(latest, s.cutMs.Load(), s.rules.Load().Most())
	}
	return index.DayOf(latest)
}

// markedSince returns what reports whether a series may have samples since its cut. It is for a moment: it may pass over later marks.
func (e *Engine) markedSince() func(shard uint16, id series.ID) bool {
	since := map[index.Day]func(uint16, series.ID) bool{}
	return func(shard uint16, id series.ID) bool {
		cutMs, err := e.shards[shard].CutOf(uint32(id))
		if err != nil {
			return true
		}
		day := index.DayOf(cutMs)
		if since[day] == nil {
			since[day] = e.index.MarkedOn(index.Days{From: day, To: index.DayMax})
		}
		return since[day](shard, id)
	}
}

// EmptySeries returns those of growing ids of a shard that have no samples after the last entry that was applied, which
// it returns, too: what entry.ForgetBody needs. No ids: there is nothing to forget, the shard is not what its
// entries say, or it is in use. It waits for nothing.
func (e *Engine) EmptySeries(shard uint16, ids []uint32) (empty []uint32, after uint64) {
	s := e.shards[shard]
	if !s.mu.TryLock() {
		return nil, 0
	}
	defer s.mu.Unlock()
	if s.exactLocked() != nil || s.mu.applied == 0 {
		return nil, 0
	}
	known := e.index.ShardSeries(shard)
	marked := e.markedSince()
	var hot page.Hot
	for _, id := range ids {
		if id >= known || s.forgotten.Has(id) || marked(shard, series.ID(id)) {
			continue
		}
		// What is in hot pages or in the page log is older than the cut, or deleted; it can wait for the flush.
		s.mu.set.Snapshot(id, &hot)
		cutMs, err := s.CutOf(id)
		if timeMs, _, head := s.mu.set.Last(id); err != nil || head && timeMs >= cutMs || len(hot.Main) > 0 || len(hot.OutOfOrder) > 0 || hot.Sealed != page.NoPage {
			continue
		}
		empty = append(empty, id)
	}
	return empty, s.mu.applied
}
