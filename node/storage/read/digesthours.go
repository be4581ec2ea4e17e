package read

import (
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// digestHours is a hourFilter for digests: it passes on the last sample of each hour, and how many numbers there were besides.
type digestHours struct {
	told *toldHours // what other things than samples tell of hours
	emit func([]int64, []float64) error
	one  [1]segment.Rollup
}

// add takes samples in order of time.
func (f *digestHours) add(times []int64, values []float64) error {
	for len(times) > 0 {
		hour := segment.HourOf(times[0])
		n := countBefore(times, hour.ToMs+1)
		t := f.told
		if t.open && t.hourMs != hour.FromMs {
			if err := f.flush(); err != nil {
				return err
			}
		}
		if !t.open {
			t.open, t.hourMs, t.times, t.values = true, hour.FromMs, t.times[:0], t.values[:0]
		}
		t.times, t.values = append(t.times, times[:n]...), append(t.values, values[:n]...)
		times, values = times[n:], values[n:]
	}
	return nil
}

// flush passes on the hour that is gathered.
func (f *digestHours) flush() error {
	t := f.told
	if !t.open {
		return nil
	}
	t.open = false
	last := len(t.times) - 1
	numbers := int64(0)
	if r, ok := t.rollup(); ok {
		numbers = r.Count
	} else {
		numbers = countNumbers(t.values)
	}
	f.one[0] = segment.Rollup{StartMs: t.hourMs, Hidden: numbers - countNumbers(t.values[last:])}
	if err := t.emit(f.one[:]); err != nil {
		return err
	}
	return f.emit(t.times[last:], t.values[last:])
}

// readDigestHours is readThinnedWindows for digests, of whole hours.
func (r *Reader) readDigestHours(ref series.Ref, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	f := &digestHours{told: &toldHours{reader: &r.rollup, emit: emitRollups}, emit: emit}
	plan.thinned = true
	r.enter()
	err := r.readRolled(ref, within, plan, f.add, func(some []segment.Rollup) error {
		if err := f.flush(); err != nil {
			return err
		}
		return emitRollups(some)
	})
	if err != nil {
		return err
	}
	return f.flush()
}
