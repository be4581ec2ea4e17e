package read

import (
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// readWindowed is read for windows, and for the ends of hours or days: whole hours or days of which the rollups of one
// segment tell everything are given as such to emitRollups, all else as samples. Both come
// in order of time.
func (r *Reader) readWindowed(ref series.Ref, fromMs, toMs int64, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	fromMs, toMs = max(fromMs, scan.TimeMsMin), min(toMs, scan.TimeMsMax)
	cut, err := r.source.o.Shards[ref.Shard].CutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs = max(fromMs, cut); fromMs > toMs {
		return nil
	}
	thinMs, err := r.source.o.Shards[ref.Shard].ThinCutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs < thinMs {
		within := segment.TimeRange{FromMs: fromMs, ToMs: min(toMs, thinMs-1)}
		if err = r.readThinnedWindows(ref, within, plan, emit, emitRollups); err != nil || toMs < thinMs {
			return err
		}
		fromMs = thinMs
	}
	r.enter()
	if !r.rollupsLikely(ref.Shard, fromMs, toMs, plan) {
		return r.Read(ref, fromMs, toMs, emit)
	}
	return r.readRolled(ref, segment.TimeRange{FromMs: fromMs, ToMs: toMs}, plan, emit, emitRollups)
}

// readThinnedWindows is readWindowed for a range before the cut. Hours that the range cuts come as samples.
func (r *Reader) readThinnedWindows(ref series.Ref, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	if plan.widthMs == 0 || plan.endsOfMs > 0 {
		return r.Read(ref, within.FromMs, within.ToMs, emit)
	}
	if hour := segment.HourOf(within.FromMs); hour.FromMs < within.FromMs {
		endMs := min(hour.ToMs, within.ToMs)
		if err := r.Read(ref, within.FromMs, endMs, emit); err != nil || endMs == within.ToMs {
			return err
		}
		within.FromMs = endMs + 1
	}
	cut := segment.TimeRange{FromMs: within.ToMs + 1, ToMs: within.ToMs}
	if hour := segment.HourOf(within.ToMs); hour.ToMs > within.ToMs {
		cut.FromMs, within.ToMs = hour.FromMs, hour.FromMs-1
	}
	whole := r.readWholeHours
	if plan.digests {
		whole = r.readDigestHours
	}
	if err := whole(ref, within, plan, emit, emitRollups); err != nil {
		return err
	}
	if cut.FromMs > cut.ToMs {
		return nil
	}
	return r.Read(ref, cut.FromMs, cut.ToMs, emit)
}

// readWholeHours reads whole hours before the cut: whole days by their rollups, where these are wanted.
func (r *Reader) readWholeHours(ref series.Ref, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	byHour := plan
	byHour.thinned, byHour.widthMs = true, segment.HourMs
	plan.thinned = true
	w := plan.windows
	f := &hourFilter{
		beforeMs: within.ToMs + 1, toMs: within.ToMs, emit: emit,
		whole: func(hourMs int64) bool {
			endMs := w.OriginMs + floorTo(hourMs-w.OriginMs, w.WidthMs) + w.WidthMs // of the window that it begins in
			return hourMs+segment.HourMs <= endMs
		},
		told: &toldHours{reader: &r.rollup, emit: emitRollups},
	}
	rollups := func(some []segment.Rollup) error {
		if err := f.flush(); err != nil {
			return err
		}
		return emitRollups(some)
	}
	read := func(fromMs, toMs int64, plan rollupPlan) error {
		if fromMs > toMs {
			return nil
		}
		r.enter()
		return r.readRolled(ref, segment.TimeRange{FromMs: fromMs, ToMs: toMs}, plan, f.add, rollups)
	}
	daysFromMs, daysEndMs := floorTo(within.FromMs+segment.DayMs-1, segment.DayMs), floorTo(within.ToMs+1, segment.DayMs)
	byDay := plan.widthMs == segment.DayMs && w.WidthMs%segment.DayMs == 0 && w.OriginMs%segment.DayMs == 0 && daysFromMs < daysEndMs
	if byDay {
		r.enter()
		byDay = len(r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))) == 0
		r.Park()
	}
	var err error
	if !byDay {
		err = read(within.FromMs, within.ToMs, byHour)
	} else if err = read(within.FromMs, daysFromMs-1, byHour); err == nil {
		if err = read(daysFromMs, daysEndMs-1, plan); err == nil {
			err = read(daysEndMs, within.ToMs, byHour)
		}
	}
	if err != nil {
		return err
	}
	return f.flush()
}
