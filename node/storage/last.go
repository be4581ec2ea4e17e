package storage

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Last implements scan.Source. A series whose newest sample is in its head costs
// one look; one that was not written since the start is read from its end.
func (e *Engine) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	ctx, leave, err := e.readers.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	refs, err := e.selectRefs(ctx, selector, limits)
	if err != nil {
		return err
	}
	v := e.versions.acquire()
	defer e.versions.release(v)
	r := newSeriesReader(e, v, limits.BytesMax)
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
		ok = ok && s.mu.number == r.version.floors[ref.Shard].Number && !s.mu.repaired.has(timeMs)
		s.mu.Unlock()
		cut, err := s.cutOf(uint32(ref.ID))
		if err != nil {
			return series.Sample{}, false, err
		}
		if ok && timeMs >= cut && r.headIsNewest(timeMs) {
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
	if r.version.generationOldest <= r.engine.generationAtOpen || len(r.version.missing) > 0 {
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
