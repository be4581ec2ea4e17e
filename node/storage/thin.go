package storage

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// thinCuts are the cuts before which the last sample of each hour of some series of a shard is kept. Rollups
// go on to tell of all samples, so none may come any more once they are in force: those that are late are left out.
type thinCuts struct {
	table  *retention.Table // nil: there are none
	mostMs int64            // the latest of them
	entry  uint64           // since which they are in force
	before *thinCuts        // what was in force before, as long as a checkpoint may need it; guarded by the Edit
}

func newThinCuts(table *retention.Table, entry uint64, before *thinCuts) *thinCuts {
	return &thinCuts{table: table, mostMs: table.Most(), entry: entry, before: before}
}

// at returns what was in force at an entry; nil: that is not known any more.
func (t *thinCuts) at(entry uint64) *thinCuts {
	for t != nil && t.entry > entry {
		t = t.before
	}
	return t
}

// ShardThinCuts returns the lists of cuts before which a shard keeps the last sample of each hour. The last one
// holds now. They must not be changed.
func (e *Engine) ShardThinCuts(shard uint16) []retention.Cuts {
	return e.shards[shard].thin.Load().table.Lists()
}

// ThinnedBefore returns the latest of the cuts of a shard.
func (e *Engine) ThinnedBefore(shard uint16) int64 { return e.shards[shard].thin.Load().mostMs }

// thinTables returns the tables of all shards, some of them nil.
func (e *Engine) thinTables() []*retention.Table {
	tables := make([]*retention.Table, len(e.shards))
	for i, s := range e.shards {
		tables[i] = s.thin.Load().table
	}
	return tables
}

func (s *shard) applyThinCutsLocked(e *entry.Entry) error {
	c, err := retention.Decode(e.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", entry.ErrInvalid, err)
	}
	if !wholeDays(&c) {
		return fmt.Errorf("%w: a cut within a day", entry.ErrInvalid)
	}
	before := s.thin.Load()
	table, err := before.table.With(c, s.cutMs.Load(), s.engine.thinTables())
	if err != nil {
		return fmt.Errorf("%w: %w", entry.ErrInvalid, err)
	}
	s.mu.watches.touch(retention.NoCut)
	s.thin.Store(newThinCuts(table, e.Index, before))
	return nil
}

// wholeDays reports whether all cuts of a list are starts of days.
func wholeDays(c *retention.Cuts) bool {
	whole := func(cutMs int64) bool { return cutMs == retention.NoCut || cutMs%segment.DayMs == 0 }
	return whole(c.OtherMs) && !slices.ContainsFunc(c.Rules, func(r retention.Cut) bool { return !whole(r.CutMs) })
}

// ThinCutOf implements read.Shard.
func (s *shard) ThinCutOf(id uint32) (int64, error) {
	return s.thin.Load().table.CutOf(s.engine.index, s.number, id)
}

// ThinCut implements transfer.Shard.
func (s *shard) ThinCut() int64 { return s.thin.Load().mostMs }

// tooLateLocked reports whether a sample of a batch comes too late to be among those of its hour, which are thinned. Of a series
// that the batch defines the key tells.
func (s *shard) tooLateLocked(id uint32, timeMs int64) bool {
	t := s.thin.Load()
	if timeMs >= t.mostMs {
		return false
	}
	if n := id - uint32(series.SlotBase); id >= uint32(series.SlotBase) {
		switch {
		case n >= uint32(len(s.mu.slots)):
			return false // it is refused
		case s.mu.slots[n].key != nil:
			return timeMs < t.table.Of(s.mu.slots[n].key)
		}
		id = s.mu.slots[n].id
	}
	return timeMs < s.thinCutLocked(id)
}

// thinCutLocked is ThinCutOf for entries, which are applied all the same where a key cannot be read: as if there was no cut.
func (s *shard) thinCutLocked(id uint32) int64 {
	cutMs, err := s.ThinCutOf(id)
	if err != nil {
		s.engine.reportCorruption(fmt.Errorf("shard %d: before which time hours of series %d are thinned: %w", s.number, id, err))
	}
	return cutMs
}

// deletion is a part of a delete.
type deletion struct {
	ids          []uint32
	fromMs, toMs int64
}

// wholeHoursLocked returns the parts of a delete in which it takes whole hours of the series that are thinned there: what
// is left of such an hour cannot be told apart by time.
func (s *shard) wholeHoursLocked(ids []uint32, fromMs, toMs int64) []deletion {
	t := s.thin.Load()
	fromMs, toMs = max(fromMs, scan.TimeMsMin), min(toMs, scan.TimeMsMax) // others may be in no hour
	hourMs, endMs := segment.HourOf(fromMs).FromMs, segment.HourOf(toMs).ToMs
	if (fromMs == hourMs || fromMs >= t.mostMs) && (toMs == endMs || toMs >= t.mostMs) {
		return []deletion{{ids, fromMs, toMs}}
	}
	var parts []deletion
	for _, id := range ids {
		cutMs, d := s.thinCutLocked(id), deletion{fromMs: fromMs, toMs: toMs}
		if fromMs < cutMs {
			d.fromMs = hourMs
		}
		if toMs < cutMs {
			d.toMs = endMs
		}
		at := slices.IndexFunc(parts, func(p deletion) bool { return p.fromMs == d.fromMs && p.toMs == d.toMs })
		if at < 0 {
			at = len(parts)
			parts = append(parts, d)
		}
		parts[at].ids = append(parts[at].ids, id)
	}
	return parts
}

// PrepareThin lets files be thinned by the cuts that all shards have by now, and reports whether there are any that they could not
// be thinned by before. No sample from before the cuts may be outside of the segments, nor be replayed: so it makes a
// checkpoint, and turns the page log into segments.
func (e *Engine) PrepareThin(checkpoint func() error) (due bool, err error) {
	type prepared struct {
		cuts    *thinCuts
		replica uint64
	}
	shards := make([]prepared, len(e.shards))
	for i, s := range e.shards {
		s.mu.Lock()
		shards[i] = prepared{s.thin.Load(), s.mu.number}
		s.mu.Unlock()
		due = due || shards[i].cuts.table != s.thinned.Load()
	}
	if !due {
		return false, nil
	}
	if err := checkpoint(); err != nil {
		return false, err
	}
	m := e.files.Present() // before the flush: what another checkpoint puts into the page log behind it is in no segment yet
	if err := e.Flush(); err != nil {
		return false, err
	}
	for i, s := range e.shards {
		s.mu.Lock()
		if p := &shards[i]; s.mu.number == p.replica && p.cuts.entry <= m.Applied[i] {
			s.thinned.Store(p.cuts.table)
		}
		s.mu.Unlock()
	}
	return true, nil
}

// thinnable returns the cuts that files may be thinned by.
func (e *Engine) thinnable() retention.Snapshot {
	c := retention.Snapshot{WholeMs: make([]int64, len(e.shards)), Rules: make([]*retention.Table, len(e.shards))}
	for i, s := range e.shards {
		c.WholeMs[i], c.Rules[i] = retention.NoCut, s.thinned.Load()
	}
	return c
}

// noteThinCuts notes in the manifest of a checkpoint the cuts of shards that are in force at their applied entries. Of
// later ones a replay tells, in their place among the samples.
func (e *Engine) noteThinCuts(m *manifest.Manifest, applied []uint64) {
	for i, s := range e.shards {
		t := s.thin.Load().at(applied[i])
		if t == nil || t.table == nil && m.ThinCutsOf(i) == nil {
			continue // of a replica that was replaced since: its own was noted then
		}
		t.before = nil
		m.ThinCuts = retention.WithCuts(m.ThinCuts, len(e.shards), uint16(i), t.table.Lists())
		m.LetThin()
	}
}
