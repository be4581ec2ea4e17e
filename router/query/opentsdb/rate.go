package opentsdb

import "math"

// rateOptions is net.opentsdb.core.RateOptions.
type rateOptions struct {
	counter    bool
	counterMax float64 // value at which a counter starts anew
	resetValue float64 // a rate above it, after a reset, becomes 0; 0: never
	dropResets bool
}

// counterMaxDefault is Long.MAX_VALUE.
const counterMaxDefault = math.MaxInt64

// rates turns points into changes per second, in place, and returns what is left
// of both slices. The first point has no rate. (OpenTSDB gives it one against
// zero at the epoch and hides it, but lets it count where other series have
// points before its second one; that is not copied.)
func (o *rateOptions) rates(times []int64, values []float64) ([]int64, []float64) {
	if len(times) == 0 {
		return times, values
	}
	kept := 0
	beforeTime, before := times[0], values[0]
	for i := 1; i < len(times); i++ {
		t, v := times[i], values[i]
		seconds := float64(t-beforeTime) / 1000
		difference := v - before
		reset := o.counter && difference < 0
		if reset {
			difference = o.counterMax - before + v
		}
		rate := difference / seconds
		if reset && o.resetValue > 0 && rate > o.resetValue {
			rate = 0
		}
		if !reset || !o.dropResets {
			times[kept], values[kept] = t, rate
			kept++
		}
		beforeTime, before = t, v
	}
	return times[:kept], values[:kept]
}
