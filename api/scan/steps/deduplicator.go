package steps

import "slices"

// Deduplicator keeps, of the samples of one series after the other, the newest of each interval: one that ends at a
// multiple of the interval's length, which belongs to it, as the one before it does not.
type Deduplicator struct {
	intervalMs int64
	endMs      int64 // of the interval of the last sample that came
	open       bool  // that sample is held, as a newer one of its interval may come
	timeMs     int64
	value      float64

	times  []int64
	values []float64
}

// NewDeduplicator returns a deduplicator by intervals of at least 1 ms.
func NewDeduplicator(intervalMs int64) *Deduplicator { return &Deduplicator{intervalMs: intervalMs} }

// Begin makes ready for another series.
func (d *Deduplicator) Begin() { d.open = false }

// Bytes returns what the deduplicator holds.
func (d *Deduplicator) Bytes() int { return 8 * (cap(d.times) + cap(d.values)) }

// Add takes the next samples of the series, in order of time, and returns those of which it is known by now that they
// are the newest of their intervals. The slices are used again.
func (d *Deduplicator) Add(times []int64, values []float64) ([]int64, []float64) {
	values = values[:len(times)]
	d.times, d.values = slices.Grow(d.times[:0], len(times)), slices.Grow(d.values[:0], len(times))
	for i, t := range times {
		if d.open && t > d.endMs {
			d.times, d.values = append(d.times, d.timeMs), append(d.values, d.value)
		}
		if !d.open || t > d.endMs {
			d.endMs = t / d.intervalMs * d.intervalMs
			if d.endMs < t {
				d.endMs += d.intervalMs
			}
		}
		d.open, d.timeMs, d.value = true, t, values[i]
	}
	return d.times, d.values
}

// End returns the last sample of the series; none, where none came. The slices are used again.
func (d *Deduplicator) End() ([]int64, []float64) {
	d.times, d.values = d.times[:0], d.values[:0]
	if d.open {
		d.open = false
		d.times, d.values = append(d.times, d.timeMs), append(d.values, d.value)
	}
	return d.times, d.values
}
