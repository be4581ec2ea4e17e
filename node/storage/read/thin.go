package read

import (
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Before a cut a series has, of each hour, its last sample and a rollup of all, whether its files are thinned already or not:
// else answers would differ between replicas, and change when a file is written anew. So reads go by the cut:
//
//   - samples are the last of each hour;
//   - windows take whole hours from rollups, or from all samples, where there still are some; of an hour that the range
//     or a window cuts they take the last sample.

// hourFilter passes on the last sample of each hour before a cut, but for hours that are whole, and all samples from the cut on.
type hourFilter struct {
	beforeMs int64
	toMs     int64                   // later samples are not passed on: they only tell that others are not the last
	whole    func(hourMs int64) bool // the hour is passed on with all of its samples; nil: none is
	emit     func(times []int64, values []float64) error
	told     *toldHours // where hours that are whole may be told by other things than their samples; nil: they are not

	held   bool // the last sample of an hour that may go on
	time   int64
	value  float64
	times  []int64
	values []float64
}

// add takes samples in order of time.
func (f *hourFilter) add(times []int64, values []float64) error {
	f.times, f.values = f.times[:0], f.values[:0]
	for len(times) > 0 && times[0] < f.beforeMs {
		hour := segment.HourOf(times[0])
		n := countBefore(times, hour.ToMs+1)
		if f.told != nil && f.told.hourMs < hour.FromMs {
			if err := f.endTold(); err != nil {
				return err
			}
		}
		if f.held && f.time < hour.FromMs {
			f.keepHeld()
		}
		if f.whole != nil && f.whole(hour.FromMs) {
			if err := f.addWhole(hour.FromMs, times[:n], values[:n]); err != nil {
				return err
			}
		} else {
			f.held, f.time, f.value = true, times[n-1], values[n-1]
		}
		times, values = times[n:], values[n:]
	}
	if len(times) > 0 {
		f.keepHeld()
		if err := f.endTold(); err != nil {
			return err
		}
	}
	if err := f.send(); err != nil || len(times) == 0 {
		return err
	}
	return f.emit(times, values)
}

// flush passes on what is held.
func (f *hourFilter) flush() error {
	f.times, f.values = f.times[:0], f.values[:0]
	f.keepHeld()
	if err := f.endTold(); err != nil {
		return err
	}
	return f.send()
}

func (f *hourFilter) keepHeld() {
	if f.held && f.time <= f.toMs {
		f.times, f.values = append(f.times, f.time), append(f.values, f.value)
	}
	f.held = false
}

func (f *hourFilter) send() error {
	if len(f.times) == 0 {
		return nil
	}
	err := f.emit(f.times, f.values)
	f.times, f.values = f.times[:0], f.values[:0]
	return err
}

// readThinned is Read where samples before thinMs are the last of their hours.
func (r *Reader) readThinned(ref series.Ref, fromMs, toMs, thinMs int64, emit func([]int64, []float64) error) error {
	f := &hourFilter{beforeMs: thinMs, toMs: toMs, emit: emit}
	if toMs < thinMs {
		toMs = min(segment.HourOf(toMs).ToMs, scan.TimeMsMax)
	}
	if err := r.readSamples(ref, fromMs, toMs, f.add); err != nil {
		return err
	}
	return f.flush()
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
