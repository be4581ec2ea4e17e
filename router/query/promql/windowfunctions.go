package promql

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"
)

// The engine's functions take points one by one, through a closure for each step. These are
// the same functions over columns of times and values. Each does the operations of its
// original (promql/functions.go of the pinned version), in their order, so that the bits of
// the results are the same; TestWindowFunctions compares them.

// windowFunction returns the value of a function over the samples of one window, of which
// there is at least one and none is a staleness marker. endMs is the end of the window. Not
// ok: the window has no value.
type windowFunction func(c *rangedCall, times []int64, values []float64, endMs int64) (result float64, ok bool)

// windowFunctionOf returns the function of a name, or nil: the engine's own has to be called.
func windowFunctionOf(name string) windowFunction {
	switch name {
	case "avg_over_time":
		return windowAvg
	case "sum_over_time":
		return windowSum
	case "min_over_time":
		return windowMin
	case "max_over_time":
		return windowMax
	case "count_over_time":
		return windowCount
	case "present_over_time":
		return windowPresent
	case "last_over_time":
		return windowLast
	case "stddev_over_time":
		return windowStddev
	case "stdvar_over_time":
		return windowStdvar
	case "rate", "increase":
		return windowIncrease
	case "delta":
		return windowDelta
	case "irate":
		return windowIrate
	case "idelta":
		return windowIdelta
	case "changes":
		return windowChanges
	case "resets":
		return windowResets
	}
	return nil
}

// kahanSum adds values to sum. As long as the sum is finite it gives what kahansum.Inc does
// for one value after the other; a sum that is not says that one of them was not.
func kahanSum(sum float64, values []float64) (total, compensation float64) {
	c := 0.0
	for _, v := range values {
		t := sum + v
		if math.Abs(sum) >= math.Abs(v) {
			c += (sum - t) + v
		} else {
			c += (v - t) + sum
		}
		sum = t
	}
	return sum, c
}

// isFinite: neither infinite nor NaN.
func isFinite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

func windowSum(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	if sum, c := kahanSum(0, values); isFinite(sum) {
		return sum + c, true
	}
	var sum, c float64
	for _, v := range values {
		sum, c = kahansum.Inc(v, sum, c)
	}
	if math.IsInf(sum, 0) {
		return sum, true
	}
	return sum + c, true
}

func windowAvg(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	if sum, c := kahanSum(values[0], values[1:]); isFinite(sum) {
		count := float64(len(values))
		return sum/count + c/count, true
	}
	return incrementalAvg(values), true
}

// incrementalAvg is the average of values whose sum may overflow.
func incrementalAvg(values []float64) float64 {
	sum, count := values[0], 1.
	var mean, c float64
	incremental := false
	for i, v := range values[1:] {
		count = float64(i + 2)
		if !incremental {
			newSum, newC := kahansum.Inc(v, sum, c)
			if !math.IsInf(newSum, 0) {
				sum, c = newSum, newC
				continue
			}
			incremental = true
			mean = sum / (count - 1)
			c /= count - 1
		}
		q := (count - 1) / count
		mean, c = kahansum.Inc(v/count, q*mean, q*c)
	}
	if incremental {
		return mean + c
	}
	return sum/count + c/count
}

func windowMin(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	least := values[0]
	for _, v := range values[1:] {
		if v < least || math.IsNaN(least) {
			least = v
		}
	}
	return least, true
}

func windowMax(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	most := values[0]
	for _, v := range values[1:] {
		if v > most || math.IsNaN(most) {
			most = v
		}
	}
	return most, true
}

func windowCount(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	return float64(len(values)), true
}

func windowPresent(*rangedCall, []int64, []float64, int64) (float64, bool) { return 1, true }

func windowLast(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	return values[len(values)-1], true
}

func windowStdvar(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	var count, mean, cMean, aux, cAux float64
	for _, v := range values {
		count++
		delta := v - (mean + cMean)
		mean, cMean = kahansum.Inc(delta/count, mean, cMean)
		aux, cAux = kahansum.Inc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / count, true
}

func windowStddev(c *rangedCall, times []int64, values []float64, endMs int64) (float64, bool) {
	variance, ok := windowStdvar(c, times, values, endMs)
	return math.Sqrt(variance), ok
}

func windowChanges(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	changes, before := 0, values[0]
	for _, v := range values[1:] {
		if v != before && !(math.IsNaN(v) && math.IsNaN(before)) {
			changes++
		}
		before = v
	}
	return float64(changes), true
}

func windowResets(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	resets, before := 0, values[0]
	for _, v := range values[1:] {
		if v < before {
			resets++
		}
		before = v
	}
	return float64(resets), true
}

// windowIncrease is rate, or increase: what a counter has grown by, resets not counted.
func windowIncrease(c *rangedCall, times []int64, values []float64, endMs int64) (float64, bool) {
	grown, before := values[len(values)-1]-values[0], values[0]
	for _, v := range values[1:] {
		if v < before {
			grown += before
		}
		before = v
	}
	return c.extrapolate(times, grown, values[0], endMs, true)
}

func windowDelta(c *rangedCall, times []int64, values []float64, endMs int64) (float64, bool) {
	return c.extrapolate(times, values[len(values)-1]-values[0], values[0], endMs, false)
}

// extrapolate is the second half of the engine's extrapolatedRate: it extends a difference
// between the first and the last sample to the ends of the window, but not below the zero
// of a counter.
func (c *rangedCall) extrapolate(times []int64, difference, first float64, endMs int64, counter bool) (float64, bool) {
	intervals := len(times) - 1
	if intervals == 0 {
		return 0, false
	}
	firstMs, lastMs := times[0], times[intervals]
	toStart := float64(firstMs-(endMs-c.grid.widthMs)) / 1000
	toEnd := float64(endMs-lastMs) / 1000
	sampled := float64(lastMs-firstMs) / 1000
	average := sampled / float64(intervals)
	threshold := average * 1.1
	if toStart >= threshold {
		toStart = average / 2
	}
	if counter {
		toZero := toStart
		if difference > 0 && first >= 0 {
			toZero = sampled * (first / difference)
		}
		if toZero < toStart {
			toStart = toZero
		}
	}
	if toEnd >= threshold {
		toEnd = average / 2
	}
	factor := (sampled + toStart + toEnd) / sampled // times grow, so that it is not 0
	if c.perSecond != 0 {
		factor /= c.perSecond
	}
	return difference * factor, true
}

func windowIrate(_ *rangedCall, times []int64, values []float64, _ int64) (float64, bool) {
	n := len(values)
	if n < 2 {
		return 0, false
	}
	result := values[n-1]
	if !(values[n-1] < values[n-2]) { // or NaN
		result = values[n-1] - values[n-2]
	}
	return result / (float64(times[n-1]-times[n-2]) / 1000), true
}

func windowIdelta(_ *rangedCall, _ []int64, values []float64, _ int64) (float64, bool) {
	n := len(values)
	if n < 2 {
		return 0, false
	}
	return values[n-1] - values[n-2], true
}
