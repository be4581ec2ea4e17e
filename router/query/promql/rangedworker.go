package promql

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"
)

// rangedWorker evaluates a call for one series after the other. It holds the samples that
// the next step can see, and few others.
type rangedWorker struct {
	*rangedCall
	notes annotations.Annotations

	times  []int64 // samples that may still be seen, without staleness markers
	values []float64
	from   int  // those before are not seen by the next step
	to     int  // those before are not younger than the step before
	seen   int  // how many samples came between the last two steps: likely again
	given  bool // the step before has a value
	any    bool // a step has

	at        int64 // end of the range of the next step
	outTimes  []int64
	outValues []float64

	// For functions of the engine.
	helper promql.EvalNodeHelper
	matrix promql.Matrix
	points []promql.FPoint
}

func newRangedWorker(c *rangedCall) *rangedWorker {
	w := &rangedWorker{rangedCall: c, helper: promql.EvalNodeHelper{Out: make(promql.Vector, 0, 1)}, matrix: make(promql.Matrix, 1)}
	w.begin()
	return w
}

// begin makes ready for another series.
func (w *rangedWorker) begin() {
	w.times, w.values, w.from, w.to, w.at = w.times[:0], w.values[:0], 0, 0, w.grid.firstMs
	w.given, w.any, w.outTimes, w.outValues = false, false, w.outTimes[:0], w.outValues[:0]
}

// bytes is what the worker holds.
func (w *rangedWorker) bytes() int {
	return 8*(cap(w.times)+cap(w.values)+cap(w.outTimes)+cap(w.outValues)) + 16*cap(w.points)
}

// pieceSamplesMax is how many samples are taken at a time, so that what is held follows
// from the range, and not from how the samples come.
const pieceSamplesMax = 1024

// add takes the next samples of the series.
func (w *rangedWorker) add(times []int64, values []float64) {
	values = values[:len(times)]
	for len(times) > 0 && w.at <= w.grid.lastMs {
		n := min(len(times), pieceSamplesMax)
		if staleAt(values[:n]) == n {
			w.see(times[:n], values[:n])
		} else if w.take(times[:n], values[:n]); len(w.times) > 0 {
			w.advance(w.times[len(w.times)-1])
			w.drop()
		}
		times, values = times[n:], values[n:]
	}
}

// see takes samples of which none is a staleness marker. Steps that see nothing older are
// evaluated where the samples lie, and only what later steps can see is copied.
func (w *rangedWorker) see(times []int64, values []float64) {
	if len(w.times) > 0 {
		n := indexAfter(times, 0, w.at, w.seen)
		w.keep(times[:n], values[:n])
		if times, values = times[n:], values[n:]; len(times) == 0 {
			w.drop()
			return
		}
		w.advance(times[0])
		if last := len(w.times) - 1; w.times[last] > w.at-w.grid.widthMs {
			w.keep(times, values)
			w.advance(times[len(times)-1])
			w.drop()
			return
		}
	}
	keptTimes, keptValues := w.times[:0], w.values[:0]
	w.times, w.values, w.from, w.to = times, values, 0, 0
	w.advance(times[len(times)-1])
	next := indexAfter(times, w.from, w.at-w.grid.widthMs, w.seen)
	w.times, w.values, w.from, w.to = keptTimes, keptValues, 0, max(0, w.to-next)
	w.keep(times[next:], values[next:])
}

// keep copies samples behind those that are held.
func (w *rangedWorker) keep(times []int64, values []float64) {
	w.times, w.values = append(w.times, times...), append(w.values, values...)
}

// take appends samples that are no staleness markers.
func (w *rangedWorker) take(times []int64, values []float64) {
	for len(times) > 0 {
		n := staleAt(values)
		w.keep(times[:n], values[:n])
		n = min(n+1, len(times))
		times, values = times[n:], values[n:]
	}
}

// staleAt returns the index of the first staleness marker, or the length.
func staleAt(values []float64) int {
	for i, v := range values {
		if isStale(v) {
			return i
		}
	}
	return len(values)
}

func isStale(v float64) bool { return math.Float64bits(v) == value.StaleNaN }

// advance evaluates the steps whose samples have all been added: the youngest sample that is
// known, which may be the one after those, is younger.
func (w *rangedWorker) advance(youngest int64) {
	for youngest > w.at && w.at <= w.grid.lastMs {
		before := w.to
		w.to = indexAfter(w.times, before, w.at, w.seen)
		w.from = indexAfter(w.times, w.from, w.at-w.grid.widthMs, w.seen)
		w.seen = w.to - before
		if w.from == w.to && !w.given {
			next := youngest
			if w.to < len(w.times) {
				next = w.times[w.to]
			}
			w.at = w.grid.at(next) // steps between see nothing
			continue
		}
		w.step()
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
func (w *rangedWorker) drop() {
	if w.from <= samplesKeptMax || w.from <= len(w.times)/2 {
		return
	}
	n := copy(w.times, w.times[w.from:])
	copy(w.values, w.values[w.from:])
	w.times, w.values, w.from, w.to = w.times[:n], w.values[:n], 0, w.to-w.from
}

// step evaluates the next step, which sees the samples from w.from to w.to.
func (w *rangedWorker) step() {
	stepMs := w.at + w.offsetMs
	result, ok := w.evaluate(stepMs)
	switch {
	case ok:
		w.outTimes, w.outValues = append(w.outTimes, stepMs), append(w.outValues, result)
		w.any = true
	case w.given:
		w.outTimes, w.outValues = append(w.outTimes, stepMs), append(w.outValues, math.Float64frombits(value.StaleNaN))
	}
	w.given = ok
	w.at += w.grid.stepMs
}

// end returns the values of the call at the steps. Where a step has none after one that has,
// there is a staleness marker. The slices are used again.
func (w *rangedWorker) end() ([]int64, []float64) {
	w.to = len(w.times)
	for w.at <= w.grid.lastMs {
		if w.from = indexAfter(w.times, w.from, w.at-w.grid.widthMs, w.seen); w.from == w.to && !w.given {
			break
		}
		w.step()
	}
	return w.outTimes, w.outValues
}

// evaluate returns the value of the function at a step.
func (w *rangedWorker) evaluate(stepMs int64) (result float64, ok bool) {
	times, values := w.times[w.from:w.to], w.values[w.from:w.to]
	if len(times) == 0 {
		return 0, false
	}
	if w.window != nil {
		result, ok = w.window(w.rangedCall, times, values, w.at)
	} else {
		result, ok = w.callEngine(times, values, stepMs)
	}
	if isStale(result) {
		result = math.NaN()
	}
	return result, ok
}

// callEngine calls the engine's function for one step.
func (w *rangedWorker) callEngine(times []int64, values []float64, stepMs int64) (result float64, ok bool) {
	w.points = w.points[:0]
	for i, t := range times {
		w.points = append(w.points, promql.FPoint{T: t, F: values[i]})
	}
	w.matrix[0].Floats = w.points
	w.helper.Ts = stepMs
	out, notes := w.function(nil, w.matrix, w.call.Args, &w.helper)
	w.notes.Merge(notes)
	w.helper.Out = out[:0]
	if len(out) == 0 {
		return 0, false
	}
	return out[0].F, true
}

// labels returns the labels of the result.
func (w *rangedWorker) labels(metric labels.Labels) labels.Labels {
	if w.any && (w.call.Func.Name == "rate" || w.call.Func.Name == "increase") {
		w.noteCounter(metric.Get(nameLabel))
	}
	if w.keepName {
		return metric
	}
	return metric.DropReserved(schema.IsMetadataLabel)
}

// noteCounter adds the engine's note on what may be no counter.
func (w *rangedWorker) noteCounter(metric string) {
	for _, suffix := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(metric, suffix) {
			return
		}
	}
	w.notes.Add(annotations.NewPossibleNonCounterInfo(metric, w.call.Args[0].PositionRange()))
}
