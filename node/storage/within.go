package storage

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
)

// unflushed is what a shard knows of samples of which the index may not have the month yet:
// a series is marked in the month of the first sample that its head gets, and in all others
// when they are flushed. Guarded by the shard's lock.
type unflushed struct {
	fromMs, toMs int64  // the samples since the start are not older, nor newer
	through      uint32 // heads do not tell of samples in the page log's generations up to this one
}

// add notes samples.
func (u *unflushed) add(timesMs []int64) {
	from, to := u.fromMs, u.toMs
	for _, timeMs := range timesMs {
		from, to = min(from, timeMs), max(to, timeMs)
	}
	u.fromMs, u.toMs = from, to
}

// within gives what index of a range of time to ask.
func (e *Engine) within(fromMs, toMs int64) index.Within {
	if fromMs <= scan.TimeMsMin && toMs >= scan.TimeMsMax {
		return index.Within{Months: index.AllMonths()}
	}
	v := e.versions.acquire()
	oldest := v.generationOldest
	e.versions.leave(v)
	if oldest <= e.generationAtOpen {
		return index.Within{Months: index.AllMonths()}
	}
	return index.Within{
		Months: index.MonthsOf(fromMs, toMs),
		Shards: e.shardsWithin(fromMs, toMs, oldest),
		Unmarked: func(ref series.Ref) bool {
			return e.shards[ref.Shard].mayHave(uint32(ref.ID), fromMs, toMs, oldest)
		},
	}
}

// shardsWithin says of which shards series may have samples in a range of time that are not
// flushed.
func (e *Engine) shardsWithin(fromMs, toMs int64, oldest uint32) []bool {
	of := make([]bool, len(e.shards))
	for i, s := range e.shards {
		s.mu.Lock()
		u := &s.mu.unflushed
		of[i] = oldest <= u.through || u.fromMs <= toMs && u.toMs >= fromMs
		s.mu.Unlock()
	}
	return of
}

// mayHave says whether a series may have samples in a range of time that are not flushed;
// oldest is the page log's oldest generation that is not.
func (s *shard) mayHave(id uint32, fromMs, toMs int64, oldest uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if oldest <= s.mu.unflushed.through {
		return true
	}
	newestMs, _, known := s.mu.set.Last(id)
	return known && newestMs >= fromMs && s.mu.unflushed.fromMs <= toMs
}

// dated is an Engine of which lists are held to a range of time.
type dated struct {
	*Engine
	names        Names
	fromMs, toMs int64
}

// Between implements scan.Dated.
func (e *Engine) Between(fromMs, toMs int64) scan.Source {
	return dated{e, e.NamesOf(nil).Between(fromMs, toMs), fromMs, toMs}
}

// Series implements scan.Source.
func (d dated) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	return d.SeriesBetween(ctx, selector, d.fromMs, d.toMs, limit, visit)
}

// Metrics implements scan.Source.
func (d dated) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return d.names.Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (d dated) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return d.names.TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source.
func (d dated) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return d.names.TagValues(ctx, database, metric, name, prefix, limit)
}
