package metricsql

import (
	"math"
	"slices"
)

// window is what a function sees of a series at one step: the samples in (endMs-widthMs, endMs].
type window struct {
	values []float64
	times  []int64
	endMs  int64
	// previous is the sample before the window, if it is not older than about an interval of the series before its begin; else NaN, and
	// previousMs is the time back to which it would have counted.
	previous       float64
	previousMs     int64
	before, behind float64 // samples outside the window, however far; NaN: there is none
	widthMs        int64
}

// windowFunction returns the value of a window; NaN: there is none.
type windowFunction func(w *window) float64

// nan is no value.
func nan() float64 { return math.NaN() }

func isNaN(v float64) bool { return v != v }

// last returns the last sample, which there has to be.
func (w *window) last() (value float64, ms int64) {
	n := len(w.values) - 1
	return w.values[n], w.times[n]
}

// lastTimeOf returns the time of the last sample with a value, which there has to be.
func (w *window) lastTimeOf(value float64) (ms int64) {
	for i, v := range w.values {
		if v == value {
			ms = w.times[i]
		}
	}
	return ms
}

// steps returns a sample to begin with and those after it: with the one before the window, if that counts. Not ok: there is no sample.
func (w *window) steps() (first float64, rest []float64, ok bool) {
	switch {
	case !isNaN(w.previous):
		return w.previous, w.values, true
	case len(w.values) > 0:
		return w.values[0], w.values[1:], true
	}
	return 0, nil, false
}

// ofValues makes a function of all values, which there have to be.
func ofValues(f func(values []float64) float64) windowFunction {
	return func(w *window) float64 {
		if len(w.values) == 0 {
			return nan()
		}
		return f(w.values)
	}
}

// ofTimes makes a function of the times of samples, in seconds.
func ofTimes(f func(w *window) int64) windowFunction {
	return func(w *window) float64 {
		if len(w.values) == 0 {
			return nan()
		}
		return float64(f(w)) / msPerSecond
	}
}

// ofChanges adds up what f makes of each sample and the next one.
func ofChanges(f func(from, to float64) float64) windowFunction {
	return func(w *window) float64 {
		before, rest, ok := w.steps()
		if !ok {
			return nan()
		}
		total := 0.0
		for _, v := range rest {
			total += f(before, v)
			before = v
		}
		return total
	}
}

const msPerSecond = 1000

//nolint:gochecknoglobals // a constant table
var windowFunctions = map[string]windowFunction{
	"avg_over_time": ofValues(mean), "min_over_time": ofValues(least), "max_over_time": ofValues(greatest), "sum_over_time": ofValues(sum),
	"count_over_time":   ofValues(func(values []float64) float64 { return float64(len(values)) }),
	"present_over_time": ofValues(func([]float64) float64 { return 1 }),
	"stddev_over_time":  ofValues(func(values []float64) float64 { return math.Sqrt(variance(values)) }), "stdvar_over_time": ofValues(variance),
	"last_over_time": ofValues(newest), "default_rollup": ofValues(newest), "first_over_time": ofValues(func(values []float64) float64 { return values[0] }),
	"median_over_time": ofValues(func(values []float64) float64 { return quantile(0.5, values) }),
	"range_over_time":  ofValues(func(values []float64) float64 { return greatest(values) - least(values) }),
	"sum2_over_time": ofValues(func(values []float64) float64 {
		return fold(values, func(total, v float64) float64 { return total + v*v })
	}),
	"distinct_over_time": ofValues(distinct),
	"tfirst_over_time":   ofTimes(func(w *window) int64 { return w.times[0] }),
	"tlast_over_time":    ofTimes(func(w *window) int64 { return w.times[len(w.times)-1] }),
	"tmin_over_time":     ofTimes(func(w *window) int64 { return w.lastTimeOf(least(w.values)) }),
	"tmax_over_time":     ofTimes(func(w *window) int64 { return w.lastTimeOf(greatest(w.values)) }),

	"ascent_over_time": ofChanges(func(from, to float64) float64 { return max(0, to-from) }), "descent_over_time": ofChanges(func(from, to float64) float64 { return max(0, from-to) }),
	"increases_over_time": ofChanges(func(from, to float64) float64 { return one(to > from && !same(from, to)) }),
	"decreases_over_time": ofChanges(func(from, to float64) float64 { return one(to < from && !same(from, to)) }),

	"rate": slope, "deriv_fast": slope, "irate": lastSlope, "ideriv": lastSlope, "deriv": regression,
	"increase": difference, "delta": difference, "increase_pure": pureDifference, "idelta": lastDifference,
	"increase_prometheus": innerDifference, "delta_prometheus": innerDifference, "rate_prometheus": innerSlope,
	"lag": lag, "lifetime": lifetime, "scrape_interval": interval,
}

// widened are the functions whose window, where none is written, is at least about an interval of the series.
//
//nolint:gochecknoglobals // a constant table
var widened = []string{
	"default_rollup", "deriv", "deriv_fast", "ideriv", "irate", "rate", "rollup", "rollup_candlestick", "rollup_deriv", "rollup_rate",
	"rollup_scrape_interval", "scrape_interval",
}

// counters are the functions that see a counter as if it had never been reset.
//
//nolint:gochecknoglobals // a constant table
var counters = []string{"increase", "increase_prometheus", "increase_pure", "irate", "rate", "rate_prometheus", "rollup_increase", "rollup_rate"}

// named are the functions whose results have the name of the metric.
//
//nolint:gochecknoglobals // a constant table
var named = []string{
	"avg_over_time", "default_rollup", "first_over_time", "last_over_time", "max_over_time", "median_over_time", "min_over_time", "rollup", "rollup_candlestick",
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// same reports whether two numbers differ by no more than what arithmetic loses.
func same(a, b float64) bool { return math.Abs(b-a) < 1e-12*math.Abs(b) }

// slope returns the change per second from the first sample to the last.
func slope(w *window) float64 {
	from, fromMs := w.previous, w.previousMs
	switch {
	case !isNaN(from) && len(w.values) == 0:
		return 0
	case isNaN(from) && len(w.values) < 2:
		return nan()
	case isNaN(from):
		from, fromMs = w.values[0], w.times[0]
	}
	to, toMs := w.last()
	return (to - from) / (float64(toMs-fromMs) / msPerSecond)
}

// lastSlope returns the change per second from the sample before the last one to that.
func lastSlope(w *window) float64 {
	n := len(w.values)
	from, fromMs := w.previous, w.previousMs
	switch {
	case n == 0, n == 1 && isNaN(from):
		return nan()
	case n > 1:
		from, fromMs = w.values[n-2], w.times[n-2]
	}
	to, toMs := w.last()
	return (to - from) / (float64(toMs-fromMs) / msPerSecond)
}

// difference returns the change from the first sample to the last. A counter that begins small in the window began at 0.
func difference(w *window) float64 {
	from, values := w.previous, w.values
	switch {
	case isNaN(from) && len(values) == 0:
		return nan()
	case len(values) == 0:
		return 0
	case isNaN(from) && !isNaN(w.before):
		from = w.before
	case isNaN(from):
		grows := 0.0
		if len(values) > 1 {
			grows = values[1] - values[0]
		} else if !isNaN(w.behind) {
			grows = w.behind - values[0]
		}
		if from = values[0]; math.Abs(from) < 10*(math.Abs(grows)+1) {
			from = 0
		}
	}
	return values[len(values)-1] - from
}

// pureDifference returns the change since the sample before the window, or since 0.
func pureDifference(w *window) float64 {
	from := w.previous
	switch {
	case isNaN(from) && len(w.values) == 0:
		return nan()
	case len(w.values) == 0:
		return 0
	case isNaN(from) && !isNaN(w.before):
		from = w.before
	case isNaN(from):
		from = 0
	}
	return newest(w.values) - from
}

// innerDifference returns the change from the first sample of the window to its last.
func innerDifference(w *window) float64 {
	if len(w.values) < 2 {
		return nan()
	}
	return newest(w.values) - w.values[0]
}

// innerSlope returns innerDifference by the second of the window.
func innerSlope(w *window) float64 { return innerDifference(w) / (float64(w.widthMs) / msPerSecond) }

// lastDifference returns the change from the sample before the last one to that.
func lastDifference(w *window) float64 {
	n := len(w.values)
	switch {
	case n > 1:
		return w.values[n-1] - w.values[n-2]
	case n == 0 && isNaN(w.previous):
		return nan()
	case n == 0:
		return 0
	case isNaN(w.previous):
		return w.values[0]
	}
	return w.values[0] - w.previous
}

// regression returns the slope of the line through the samples, by least squares.
func regression(w *window) float64 {
	if len(w.values) == 0 {
		return nan()
	}
	_, k := line(w.values, w.times, w.endMs)
	return k
}

func lag(w *window) float64 {
	at := w.previousMs
	switch {
	case len(w.values) > 0:
		_, at = w.last()
	case isNaN(w.previous):
		return nan()
	}
	return float64(w.endMs-at) / msPerSecond
}

// since returns the time of the first sample, and how many intervals there are from it to the last one; 0: none.
func (w *window) since() (ms int64, intervals int) {
	switch {
	case len(w.times) == 0:
		return 0, 0
	case !isNaN(w.previous):
		return w.previousMs, len(w.times)
	}
	return w.times[0], len(w.times) - 1
}

func lifetime(w *window) float64 {
	first, intervals := w.since()
	if intervals == 0 {
		return nan()
	}
	_, lastMs := w.last()
	return float64(lastMs-first) / msPerSecond
}

func interval(w *window) float64 {
	_, intervals := w.since()
	return lifetime(w) / float64(intervals)
}

// Functions of values, of which there is at least one.

func fold(values []float64, f func(total, v float64) float64) (total float64) {
	for _, v := range values {
		total = f(total, v)
	}
	return total
}

func sum(values []float64) float64 {
	return fold(values, func(total, v float64) float64 { return total + v })
}
func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

func least(values []float64) float64 {
	found := values[0]
	for _, v := range values {
		if v < found {
			found = v
		}
	}
	return found
}

func greatest(values []float64) float64 {
	found := values[0]
	for _, v := range values {
		if v > found {
			found = v
		}
	}
	return found
}

func newest(values []float64) float64 { return values[len(values)-1] }

func distinct(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return float64(len(slices.Compact(sorted)))
}

// variance is Welford's.
func variance(values []float64) float64 {
	average, squares := 0.0, 0.0
	for i, v := range values {
		d := v - average
		average += d / float64(i+1)
		squares += d * (v - average)
	}
	return squares / float64(len(values))
}

// quantile interpolates between the two nearest ranks.
func quantile(phi float64, values []float64) float64 {
	switch {
	case isNaN(phi) || len(values) == 0:
		return nan()
	case phi < 0:
		return math.Inf(-1)
	case phi > 1:
		return math.Inf(1)
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := phi * float64(len(sorted)-1)
	low := int(rank)
	high, weight := min(low+1, len(sorted)-1), rank-float64(low)
	return sorted[low]*(1-weight) + sorted[high]*weight
}

// line returns the value at atMs, and the slope per second, of the line through points by least squares.
func line(values []float64, times []int64, atMs int64) (value, k float64) {
	n, t, v, tt, tv := 0.0, 0.0, 0.0, 0.0, 0.0
	for i := range values {
		at := float64(times[i]-atMs) / msPerSecond
		n, t, v, tt, tv = n+1, t+at, v+values[i], tt+at*at, tv+at*values[i]
	}
	if spread := tt - t*t/n; math.Abs(spread) >= 1e-6 {
		k = (tv - t*v/n) / spread
	}
	return v/n - k*t/n, k
}
