package steps

import (
	"context"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Evaluator makes, for one series after the other, values at steps of the samples. It holds the
// samples that the next step can see, and few others.
type Evaluator struct {
	ctx      context.Context
	request  *scan.Steps
	function function // nil: scan.StepNewest
	window   window
	newest   *Deduplicator // nil: all samples count

	times  []int64 // samples that may still be seen, without staleness markers
	values []float64
	from   int  // those before are not seen by the next step
	to     int  // those before are not younger than the step before
	seen   int  // how many samples came between the last two steps: likely again
	given  bool // the step before has a value

	at        int64 // the next step
	outTimes  []int64
	outValues []float64

	work int   // samples that functions went through since the last look at the context
	err  error // of the context: nothing is evaluated any more
}

// workMax is how many samples functions go through until somebody looks at the context: some milliseconds.
// One series can have work for minutes, as its samples are in the ranges of many steps.
const workMax = 1 << 20

// NewEvaluator returns an evaluator of a request that has passed its Check. It ends with the context.
func NewEvaluator(ctx context.Context, request *scan.Steps) *Evaluator {
	e := &Evaluator{ctx: ctx, request: request, function: functionOf(request.Function), window: windowOf(request)}
	if request.DeduplicateMs > 0 {
		e.newest = NewDeduplicator(request.DeduplicateMs)
	}
	e.Begin()
	return e
}

// Begin makes ready for another series.
func (e *Evaluator) Begin() {
	e.times, e.values, e.from, e.to, e.at = e.times[:0], e.values[:0], 0, 0, e.request.FirstMs
	e.given, e.outTimes, e.outValues = false, e.outTimes[:0], e.outValues[:0]
	if e.newest != nil {
		e.newest.Begin()
	}
}

// Bytes returns what the evaluator holds.
func (e *Evaluator) Bytes() int {
	bytes := 8 * (cap(e.times) + cap(e.values) + cap(e.outTimes) + cap(e.outValues))
	if e.newest != nil {
		bytes += e.newest.Bytes()
	}
	return bytes
}

// batchSamplesMax is how many samples are taken at a time, so that what is held follows
// from the range, and not from how the samples come.
const batchSamplesMax = 1024

// Add takes the next samples of the series, in order of time. Errors: that of the context.
func (e *Evaluator) Add(times []int64, values []float64) error {
	if e.newest != nil {
		times, values = e.newest.Add(times, values)
	}
	return e.add(times, values)
}

// add takes samples that count.
func (e *Evaluator) add(times []int64, values []float64) error {
	values = values[:len(times)]
	if e.function == nil {
		e.addNewest(times, values)
		return nil
	}
	for len(times) > 0 && e.at <= e.request.LastMs {
		unseen := indexAfter(times, 0, e.at-e.request.RangeMs, 0) // by any step, where these are far apart
		if times, values = times[unseen:], values[unseen:]; len(times) == 0 {
			break
		}
		n := min(len(times), batchSamplesMax)
		if staleAt(values[:n]) == n {
			e.see(times[:n], values[:n])
		} else if e.take(times[:n], values[:n]); len(e.times) > 0 {
			e.advance(e.times[len(e.times)-1])
			e.drop()
		}
		times, values = times[n:], values[n:]
	}
	return e.err
}

// addNewest keeps samples that are the newest at a step.
func (e *Evaluator) addNewest(times []int64, values []float64) {
	for i, t := range times {
		if t > e.at {
			e.at = e.request.At(t)
		}
		if e.at > e.request.LastMs {
			return
		}
		if n := len(e.outTimes); n > 0 && (e.at == e.request.FirstMs || e.outTimes[n-1] > e.at-e.request.StepMs) {
			e.outTimes[n-1], e.outValues[n-1] = t, values[i]
		} else if t > e.at-e.request.RangeMs {
			e.outTimes, e.outValues = append(e.outTimes, t), append(e.outValues, values[i])
		}
	}
}

// see takes samples of which none is a staleness marker. Steps that see nothing older are
// evaluated where the samples lie, and only what later steps can see is copied.
func (e *Evaluator) see(times []int64, values []float64) {
	if len(e.times) > 0 {
		n := indexAfter(times, 0, e.at, e.seen)
		e.keep(times[:n], values[:n])
		if times, values = times[n:], values[n:]; len(times) == 0 {
			e.drop()
			return
		}
		e.advance(times[0])
		if last := len(e.times) - 1; e.times[last] > e.at-e.request.RangeMs {
			e.keep(times, values)
			e.advance(times[len(times)-1])
			e.drop()
			return
		}
	}
	keptTimes, keptValues := e.times[:0], e.values[:0]
	e.times, e.values, e.from, e.to = times, values, 0, 0
	e.advance(times[len(times)-1])
	next := indexAfter(times, e.from, e.at-e.request.RangeMs, e.seen)
	e.times, e.values, e.from, e.to = keptTimes, keptValues, 0, max(0, e.to-next)
	e.keep(times[next:], values[next:])
}

// keep copies samples behind those that are held.
func (e *Evaluator) keep(times []int64, values []float64) {
	e.times, e.values = append(e.times, times...), append(e.values, values...)
}

// take appends samples that are no staleness markers.
func (e *Evaluator) take(times []int64, values []float64) {
	for len(times) > 0 {
		n := staleAt(values)
		e.keep(times[:n], values[:n])
		n = min(n+1, len(times))
		times, values = times[n:], values[n:]
	}
}

// staleAt returns the index of the first staleness marker, or the length.
func staleAt(values []float64) int {
	for i, v := range values {
		if IsStale(v) {
			return i
		}
	}
	return len(values)
}

// IsStale reports whether a value is a staleness marker.
func IsStale(v float64) bool { return math.Float64bits(v) == scan.StaleBits }

// advance evaluates the steps whose samples have all been added: the youngest sample that is
// known, which may be the one after those, is younger.
func (e *Evaluator) advance(youngest int64) {
	for youngest > e.at && e.at <= e.request.LastMs {
		before := e.to
		e.to = indexAfter(e.times, before, e.at, e.seen)
		e.from = indexAfter(e.times, e.from, e.at-e.request.RangeMs, e.seen)
		e.seen = e.to - before
		if e.from == e.to && !e.given {
			next := youngest
			if e.to < len(e.times) {
				next = e.times[e.to]
			}
			e.at = e.request.At(next) // steps between see nothing
			continue
		}
		e.step()
	}
}

// indexAfter returns the index of the first of some times, from an index on, that is after t.
// It is likely so many further.
func indexAfter(times []int64, from int, t int64, likely int) int {
	if guess := from + likely; guess <= len(times) && (guess == len(times) || times[guess] > t) && (guess == from || times[guess-1] <= t) {
		return guess
	}
	to, step := from, 1
	for to < len(times) && times[to] <= t {
		from = to + 1
		to += step
		step *= 2
	}
	to = min(to, len(times))
	for from < to {
		if middle := int(uint(from+to) >> 1); times[middle] <= t {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

// samplesKeptMax is how many samples that are seen no more may wait to be dropped, beside as
// many as can be seen.
const samplesKeptMax = 256

// drop forgets samples that are seen no more.
func (e *Evaluator) drop() {
	if e.from <= samplesKeptMax || e.from <= len(e.times)/2 {
		return
	}
	n := copy(e.times, e.times[e.from:])
	copy(e.values, e.values[e.from:])
	e.times, e.values, e.from, e.to = e.times[:n], e.values[:n], 0, e.to-e.from
}

// step evaluates the next step, which sees the samples from e.from to e.to.
func (e *Evaluator) step() {
	if e.work += e.to - e.from; e.work > workMax {
		e.work = 0
		if e.err = e.ctx.Err(); e.err != nil {
			e.at = e.request.LastMs + 1
			return
		}
	}
	result, ok := e.evaluate()
	switch {
	case ok:
		e.outTimes, e.outValues = append(e.outTimes, e.at), append(e.outValues, result)
	case e.given:
		e.outTimes, e.outValues = append(e.outTimes, e.at), append(e.outValues, math.Float64frombits(scan.StaleBits))
	}
	e.given = ok
	e.at += e.request.StepMs
}

// End returns the values of the series at the steps, or its newest samples. The slices are used
// again. Errors: that of the context.
func (e *Evaluator) End() ([]int64, []float64, error) {
	if e.newest != nil {
		if err := e.add(e.newest.End()); err != nil {
			return nil, nil, err
		}
	}
	if e.function == nil {
		return e.outTimes, e.outValues, nil
	}
	e.to = len(e.times)
	for e.at <= e.request.LastMs {
		if e.from = indexAfter(e.times, e.from, e.at-e.request.RangeMs, e.seen); e.from == e.to && !e.given {
			break
		}
		e.step()
	}
	return e.outTimes, e.outValues, e.err
}

// evaluate returns the value of the function at the next step.
func (e *Evaluator) evaluate() (result float64, ok bool) {
	times, values := e.times[e.from:e.to], e.values[e.from:e.to]
	if len(times) == 0 {
		return 0, false
	}
	result, ok = e.function(&e.window, times, values, e.at)
	if IsStale(result) {
		result = math.NaN()
	}
	return result, ok
}
