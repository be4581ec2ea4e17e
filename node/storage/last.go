package storage

import (
	"context"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Last implements scan.Source. A series whose newest sample is in its head costs
// one look; one that was not written since the start is read from its end.
func (e *Engine) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	refs, err := e.selectRefs(ctx, selector, limits)
	if err != nil {
		return err
	}
	v := e.versions.acquire()
	defer e.versions.release(v)
	r := newSeriesReader(e, v)
	defer r.close()
	var key []byte
	for _, ref := range refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		sample, ok, err := r.last(ref, fromMs)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		k, err := e.index.Key(ref.Hint, key[:0])
		if err != nil {
			return err
		}
		key = k
		if err := visit(scan.Point{Key: k, Sample: sample}); err != nil {
			if err == scan.ErrStopped { //nolint:errorlint // the visitor's own value
				return nil
			}
			return err
		}
	}
	return nil
}

func (r *seriesReader) last(ref series.Ref, fromMs int64) (series.Sample, bool, error) {
	s := r.engine.shards[ref.Shard]
	if len(r.version.tombstones.of(ref.Shard, uint32(ref.ID))) == 0 {
		s.mu.Lock()
		timeMs, number, ok := s.mu.set.Last(uint32(ref.ID))
		s.mu.Unlock()
		if ok && timeMs >= s.cutMs.Load() && r.headIsNewest(timeMs) {
			return series.Sample{TimeMs: timeMs, Value: number.Float64()}, timeMs >= fromMs, nil
		}
	}
	// From newer times to older ones, a stretch at a time, so that a long history
	// is not decoded for its last sample.
	var last series.Sample
	var found bool
	keep := func(times []int64, values []float64) error {
		if n := len(times); n > 0 {
			last, found = series.Sample{TimeMs: times[n-1], Value: values[n-1]}, true
		}
		return nil
	}
	for _, stretch := range r.stretches(fromMs) {
		if err := r.read(ref, stretch.fromMs, stretch.toMs, keep); err != nil || found {
			return last, found, err
		}
	}
	return last, false, nil
}

// headIsNewest says whether a head's time is sure to be the newest of its series.
// The head knows nothing of the time before the last start: neither of pages that
// were there then, nor of segments.
func (r *seriesReader) headIsNewest(timeMs int64) bool {
	if r.version.generationOldest <= r.engine.generationAtOpen {
		return false
	}
	for _, reader := range r.version.segments {
		if reader.Meta().MaxMs > timeMs {
			return false
		}
	}
	return true
}

// stretches gives closed ranges that together are [fromMs, end of time], newest
// first, cut where segments begin.
func (r *seriesReader) stretches(fromMs int64) []span {
	toMs := int64(scan.TimeMsMax)
	var spans []span
	for i := len(r.version.segments) - 1; i >= 0; i-- {
		start := r.version.segments[i].Meta().StartMs
		if start > fromMs && start <= toMs {
			spans = append(spans, span{start, toMs})
			toMs = start - 1
		}
	}
	return append(spans, span{fromMs, toMs})
}

// Series implements scan.Source.
func (e *Engine) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (total int64, err error) {
	locals, err := e.index.Select(ctx, selector, index.AllMonths(), 0, nil)
	if err != nil {
		return 0, err
	}
	total = int64(len(locals))
	if limit > 0 && len(locals) > limit {
		locals = locals[:limit]
	}
	var key []byte
	for _, local := range locals {
		k, err := e.index.Key(local, key[:0])
		if err != nil {
			return total, err
		}
		key = k
		if err := visit(k); err != nil {
			if err == scan.ErrStopped { //nolint:errorlint // the visitor's own value
				return total, nil
			}
			return total, err
		}
	}
	return total, nil
}

// Databases implements scan.Source.
func (e *Engine) Databases(ctx context.Context) ([]string, error) { return e.index.Databases(ctx) }

// Metrics implements scan.Source.
func (e *Engine) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return e.index.Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (e *Engine) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return e.index.TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source. An empty name means the values of all tags.
func (e *Engine) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	if name != "" {
		return e.index.TagValues(ctx, database, metric, name, prefix, limit)
	}
	names, err := e.index.TagNames(ctx, database, metric, "", 0)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		values, err := e.index.TagValues(ctx, database, metric, name, prefix, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
		slices.Sort(all)
		all = slices.Compact(all)
		if limit > 0 && len(all) > limit {
			all = all[:limit]
		}
	}
	return all, nil
}

// SelectIDs gives, by shard, the sorted ids of the series that match.
func (e *Engine) SelectIDs(ctx context.Context, selector *scan.Selector) (byShard [][]uint32, total int64, err error) {
	refs, err := e.selectRefs(ctx, selector, scan.Limits{})
	if err != nil {
		return nil, 0, err
	}
	byShard = make([][]uint32, len(e.shards))
	for _, ref := range refs {
		byShard[ref.Shard] = append(byShard[ref.Shard], uint32(ref.ID))
	}
	return byShard, int64(len(refs)), nil
}

// LookupSeries finds a series by its key.
func (e *Engine) LookupSeries(key series.Key) (ref series.Ref, known bool, err error) {
	return e.index.Lookup(key)
}

// Resolve finds series by their keys and sets refs, which is as long as keys; the
// Ref of a key that is not known has HintNone. It tries first the series that was
// created after hint, or after the key before. A key whose part of the table
// cannot be read counts as unknown: defining it again is harmless.
func (e *Engine) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	err := vfs.Guard(func() error {
		e.index.ResolveBatch(hint, keys, refs)
		return nil
	})
	if err == nil {
		return
	}
	// One by one, so that only what cannot be read is unknown.
	for i, key := range keys {
		ref, known, err := e.index.Lookup(key)
		if !known || err != nil {
			ref = series.Ref{Hint: series.HintNone}
		}
		refs[i] = ref
	}
}

// SeriesCount gives the number of series that were ever created.
func (e *Engine) SeriesCount() int64 { return int64(e.index.Len()) }
