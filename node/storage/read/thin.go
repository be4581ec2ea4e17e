package read

import "github.com/tickmesh/tickmesh/node/storage/segment"

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

// addWhole takes samples of an hour that is whole.
func (f *hourFilter) addWhole(hourMs int64, times []int64, values []float64) error {
	if t := f.told; t != nil {
		if t.open && t.hourMs == hourMs {
			t.times, t.values = append(t.times, times...), append(t.values, values...)
			return nil
		}
		f.keepHeld()
		if err := f.endTold(); err != nil {
			return err
		}
		// Of an hour that comes in several parts the first decides.
		if n := len(f.times); (n == 0 || f.times[n-1] < hourMs) && t.hourMs != hourMs && t.begins(hourMs, times[0], values[0]) {
			t.open, t.hourMs = true, hourMs
			t.times, t.values = append(t.times[:0], times...), append(t.values[:0], values...)
			return nil
		}
		t.hourMs = hourMs
	}
	f.times, f.values = append(f.times, times...), append(f.values, values...)
	return nil
}

// endTold passes on the hour that is gathered, behind what came before it.
func (f *hourFilter) endTold() error {
	t := f.told
	if t == nil || !t.open {
		return nil
	}
	t.open = false
	r, ok := t.rollup()
	if !ok {
		f.times, f.values = append(f.times, t.times...), append(f.values, t.values...)
		return nil
	}
	if err := f.send(); err != nil {
		return err
	}
	t.one[0] = r
	return t.emit(t.one[:])
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
