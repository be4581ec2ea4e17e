package steps

import (
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// The functions of Prometheus' engine take points one by one, through a closure for each step.
// These are the same functions over columns of times and values. Each does the operations of
// its original (promql/functions.go of the version in go.mod), in their order, so that the bits
// of the results are the same; TestWindowFunctions of router/query/promql compares them.

// window is what a function needs to know of the range beside its samples.
type window struct {
	rangeMs   int64
	perSecond float64 // what the function divides by: the range of a rate, or 0
}

// function returns the value of a function over the samples of one range, of which there is
// at least one and none is a staleness marker. endMs is the end of the range. Not ok: it has
// no value.
type function func(w *window, times []int64, values []float64, endMs int64) (result float64, ok bool)

// functionOf returns the function of a request, or nil for scan.StepNewest.
func functionOf(f scan.StepFunction) function {
	switch f {
	case scan.StepAvg:
		return windowAvg
	case scan.StepSum:
		return windowSum
	case scan.StepMin:
		return windowMin
	case scan.StepMax:
		return windowMax
	case scan.StepCount:
		return windowCount
	case scan.StepPresent:
		return windowPresent
	case scan.StepLast:
		return windowLast
	case scan.StepStddev:
		return windowStddev
	case scan.StepStdvar:
		return windowStdvar
	case scan.StepRate, scan.StepIncrease:
		return windowIncrease
	case scan.StepDelta:
		return windowDelta
	case scan.StepIrate:
		return windowIrate
	case scan.StepIdelta:
		return windowIdelta
	case scan.StepDeriv:
		return windowDeriv
	case scan.StepChanges:
		return windowChanges
	case scan.StepResets:
		return windowResets
	}
	return nil
}

// windowOf returns what functions of a request need to know.
func windowOf(s *scan.Steps) window {
	w := window{rangeMs: s.RangeMs}
	if s.Function == scan.StepRate {
		w.perSecond = (time.Duration(s.RangeMs) * time.Millisecond).Seconds()
	}
	return w
}

// kahanInc is Inc of Prometheus' util/kahansum: Kahan's sum with Neumaier's improvement. The
// conversions are no-ops only to the eye: they keep the compiler from fusing operations with those
// of the caller.
func kahanInc(inc, sum, c float64) (newSum, newC float64) {
	inc, sum, c = float64(inc), float64(sum), float64(c)
	t := sum + inc
	switch {
	case t > math.MaxFloat64 || t < -math.MaxFloat64:
		c = 0
	case math.Abs(sum) >= math.Abs(inc):
		c += (sum - t) + inc
	default:
		c += (inc - t) + sum
	}
	return float64(t), float64(c)
}

// kahanSum adds values to sum. As long as the sum is finite it returns what kahanInc does
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

func windowSum(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	if sum, c := kahanSum(0, values); isFinite(sum) {
		return sum + c, true
	}
	var sum, c float64
	for _, v := range values {
		sum, c = kahanInc(v, sum, c)
	}
	if math.IsInf(sum, 0) {
		return sum, true
	}
	return sum + c, true
}

func windowAvg(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
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
			newSum, newC := kahanInc(v, sum, c)
			if !math.IsInf(newSum, 0) {
				sum, c = newSum, newC
				continue
			}
			incremental = true
			mean = sum / (count - 1)
			c /= count - 1
		}
		q := (count - 1) / count
		mean, c = kahanInc(v/count, q*mean, q*c)
	}
	if incremental {
		return mean + c
	}
	return sum/count + c/count
}

func windowMin(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	least := values[0]
	for _, v := range values[1:] {
		if v < least || math.IsNaN(least) {
			least = v
		}
	}
	return least, true
}

func windowMax(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	most := values[0]
	for _, v := range values[1:] {
		if v > most || math.IsNaN(most) {
			most = v
		}
	}
	return most, true
}

func windowCount(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	return float64(len(values)), true
}

func windowPresent(*window, []int64, []float64, int64) (float64, bool) { return 1, true }

func windowLast(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	return values[len(values)-1], true
}

func windowStdvar(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	var count, mean, cMean, aux, cAux float64
	for _, v := range values {
		count++
		delta := v - (mean + cMean)
		mean, cMean = kahanInc(delta/count, mean, cMean)
		aux, cAux = kahanInc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / count, true
}

func windowStddev(w *window, times []int64, values []float64, endMs int64) (float64, bool) {
	variance, ok := windowStdvar(w, times, values, endMs)
	return math.Sqrt(variance), ok
}

func windowChanges(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	changes, before := 0, values[0]
	for _, v := range values[1:] {
		if v != before && !(math.IsNaN(v) && math.IsNaN(before)) {
			changes++
		}
		before = v
	}
	return float64(changes), true
}

func windowResets(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
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
func windowIncrease(w *window, times []int64, values []float64, endMs int64) (float64, bool) {
	grown, before := values[len(values)-1]-values[0], values[0]
	for _, v := range values[1:] {
		if v < before {
			grown += before
		}
		before = v
	}
	return w.extrapolate(times, grown, values[0], endMs, true)
}

func windowDelta(w *window, times []int64, values []float64, endMs int64) (float64, bool) {
	return w.extrapolate(times, values[len(values)-1]-values[0], values[0], endMs, false)
}

// extrapolate is the second half of the engine's extrapolatedRate: it extends a difference
// between the first and the last sample to the ends of the window, but not below the zero
// of a counter.
func (w *window) extrapolate(times []int64, difference, first float64, endMs int64, counter bool) (float64, bool) {
	intervals := len(times) - 1
	if intervals == 0 {
		return 0, false
	}
	firstMs, lastMs := times[0], times[intervals]
	toStart := float64(firstMs-(endMs-w.rangeMs)) / 1000
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
	if w.perSecond != 0 {
		factor /= w.perSecond
	}
	return difference * factor, true
}

func windowIrate(_ *window, times []int64, values []float64, _ int64) (float64, bool) {
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

func windowIdelta(_ *window, _ []int64, values []float64, _ int64) (float64, bool) {
	n := len(values)
	if n < 2 {
		return 0, false
	}
	return values[n-1] - values[n-2], true
}

// windowDeriv is the slope of the engine's linearRegression.
func windowDeriv(_ *window, times []int64, values []float64, _ int64) (float64, bool) {
	if len(values) < 2 {
		return 0, false
	}
	var n, sumX, cX, sumY, cY, sumXY, cXY, sumX2, cX2 float64
	constant := true
	for i, v := range values {
		constant = constant && v == values[0] || i == 0
		n++
		x := float64(times[i]-times[0]) / 1e3
		sumX, cX = kahanInc(x, sumX, cX)
		sumY, cY = kahanInc(v, sumY, cY)
		sumXY, cXY = kahanInc(x*v, sumXY, cXY)
		sumX2, cX2 = kahanInc(x*x, sumX2, cX2)
	}
	if constant {
		if math.IsInf(values[0], 0) {
			return math.NaN(), true
		}
		return 0, true
	}
	sumX += cX
	sumY += cY
	sumXY += cXY
	sumX2 += cX2
	covXY := sumXY - sumX*sumY/n
	varX := sumX2 - sumX*sumX/n
	return covXY / varX, true
}

// Value returns the value of the request's function, which is not scan.StepNewest, at a step.
// Times and values are the samples of its range, of which there is at least one and none is a
// staleness marker. Not ok: there is none.
func Value(request *scan.Steps, times []int64, values []float64, stepMs int64) (result float64, ok bool) {
	w := windowOf(request)
	return functionOf(request.Function)(&w, times, values, stepMs)
}
