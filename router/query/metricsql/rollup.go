package metricsql

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// silenceMs is how far before the first window samples are read, for the one before it.
const silenceMs = 5 * 60_000

// rollupLabel tells the results of one series apart.
const rollupLabel = "rollup"

// rollup is a function of the windows of a selector.
type rollup struct {
	function string
	selector string // PromQL, an instant selector without offset
	windowMs int64  // 0: it is left out
	offsetMs int64
	only     string // of several results the one that is wanted; empty: all
	keepName bool
}

// result is one of the series that a rollup makes of each.
type result struct {
	tag string // value of rollupLabel; empty: it has none
	f   windowFunction
}

// results returns what a rollup makes of each series, or nothing where only names none of them.
func (r *rollup) results() []result {
	all := []result{{"min", ofValues(least)}, {"max", ofValues(greatest)}, {"avg", ofValues(mean)}}
	switch r.function {
	case "rollup", "rollup_rate", "rollup_deriv", "rollup_increase", "rollup_delta", "rollup_scrape_interval":
	case "rollup_candlestick":
		all = []result{{"open", opening}, {"close", closing}, {"low", candle(least)}, {"high", candle(greatest)}}
	default:
		return []result{{"", windowFunctions[r.function]}}
	}
	if r.only == "" {
		return all
	}
	all = slices.DeleteFunc(all, func(one result) bool { return one.tag != r.only })
	if len(all) == 1 && r.function != "rollup_candlestick" {
		all[0].tag = ""
	}
	return all
}

// isRollup reports whether a function gives more than one series for each.
func isRollup(function string) bool {
	switch function {
	case "rollup", "rollup_rate", "rollup_deriv", "rollup_increase", "rollup_delta", "rollup_scrape_interval", "rollup_candlestick":
		return true
	}
	return false
}

// evaluate returns the rows of a rollup.
func (r *rollup) evaluate(ctx context.Context, e *evaluation) ([]Row, error) {
	steps := e.steps
	if r.function == "rollup_candlestick" { // a candle is of the step that begins at its time
		steps.FirstMs, steps.LastMs = steps.FirstMs+steps.StepMs, steps.LastMs+steps.StepMs
	}
	steps.FirstMs, steps.LastMs = steps.FirstMs-r.offsetMs, steps.LastMs-r.offsetMs
	fromMs := steps.FirstMs - max(r.windowMs, steps.StepMs) - silenceMs
	list, err := e.engine.Samples(ctx, r.selector, fromMs, steps.LastMs)
	if err != nil {
		return nil, err
	}
	results := r.results()
	var rows []Row
	for _, s := range list {
		if len(s.Values) == 0 {
			continue
		}
		prepare(r.function, s.Times, s.Values)
		metric := s.Metric
		if !r.keepName && !slices.Contains(named, r.function) {
			metric = withoutName(metric)
		}
		for _, one := range results {
			values, err := r.slide(ctx, e, &s, steps, one.f)
			if err != nil {
				return nil, err
			}
			of := metric
			if one.tag != "" {
				b := labels.NewBuilder(metric)
				b.Set(rollupLabel, one.tag)
				of = b.Labels()
			}
			rows = append(rows, Row{of, values})
		}
	}
	return rows, nil
}

// slideChecked is how many samples are looked at between looks at the context.
const slideChecked = 1 << 16

// slide returns the values of a function at the steps.
func (r *rollup) slide(ctx context.Context, e *evaluation, s *Samples, steps Steps, f windowFunction) ([]float64, error) {
	values, err := e.newValues()
	if err != nil {
		return nil, err
	}
	behindMs := steps.StepMs
	if steps.FirstMs < steps.LastMs {
		behindMs = tolerated(typicalInterval(s.Times, steps.StepMs))
	}
	w := window{widthMs: r.windowMs}
	if w.widthMs == 0 {
		if w.widthMs = steps.StepMs; slices.Contains(widened, r.function) {
			w.widthMs = max(w.widthMs, behindMs)
		}
	}
	from, to, looked := 0, 0, 0
	for i := range values {
		w.endMs = steps.FirstMs + int64(i)*steps.StepMs
		begin := w.endMs - w.widthMs
		from += sort.Search(len(s.Times)-from, func(i int) bool { return s.Times[from+i] > begin })
		to = max(to, from)
		to += sort.Search(len(s.Times)-to, func(i int) bool { return s.Times[to+i] > w.endMs })
		w.values, w.times = s.Values[from:to], s.Times[from:to]
		w.previous, w.previousMs, w.before, w.behind = nan(), begin-behindMs, nan(), nan()
		if from > 0 {
			w.before = s.Values[from-1]
			if from < len(s.Times) && s.Times[from-1] > w.previousMs {
				w.previous, w.previousMs = s.Values[from-1], s.Times[from-1]
			}
		}
		if to < len(s.Values) {
			w.behind = s.Values[to]
		}
		values[i] = f(&w)
		if looked += 1 + len(w.values); looked > slideChecked {
			if looked = 0; ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
	return values, nil
}

// prepare changes the samples of a series into what the windows of a function are of.
func prepare(function string, times []int64, values []float64) {
	if slices.Contains(counters, function) {
		straighten(values)
	}
	switch function {
	case "rollup_rate", "rollup_deriv":
		shift(values, func(i int) float64 { return (values[i+1] - values[i]) / (float64(times[i+1]-times[i]) / msPerSecond) })
	case "rollup_increase", "rollup_delta":
		shift(values, func(i int) float64 { return values[i+1] - values[i] })
	case "rollup_scrape_interval":
		for i := range values {
			values[i] = nan()
			if i > 0 {
				values[i] = float64(times[i]-times[i-1]) / msPerSecond
			}
		}
		if len(values) > 1 {
			values[0] = values[1]
		}
	}
}

// shift puts at the time of each sample what happens from it to the next one; at that of the last the same as before it, 0 if it is alone.
func shift(values []float64, change func(i int) float64) {
	before := 0.0
	for i := range len(values) - 1 {
		before = change(i)
		values[i] = before
	}
	values[len(values)-1] = before
}

// straighten takes the resets out of a counter. Where it falls by less than an eighth, it was not reset but corrected, and goes on from there.
func straighten(values []float64) {
	const partial = 8
	lost, before := 0.0, values[0]
	for i, v := range values {
		switch fall := before - v; {
		case fall > 0 && fall*partial < before:
			lost += fall
		case fall > 0:
			lost += before
		}
		before = v
		values[i] = v + lost
		if i > 0 {
			values[i] = max(values[i], values[i-1])
		}
	}
}

// typicalInterval returns how far apart samples are: the 0.6 quantile of the last 20 intervals.
func typicalInterval(times []int64, otherwiseMs int64) int64 {
	const intervalsMax = 20
	times = times[max(0, len(times)-intervalsMax-1):]
	if len(times) < 2 {
		return otherwiseMs
	}
	intervals := make([]float64, len(times)-1)
	for i := range intervals {
		intervals[i] = float64(times[i+1] - times[i])
	}
	if ms := int64(quantile(0.6, intervals)); ms > 0 {
		return ms
	}
	return otherwiseMs
}

// tolerated returns how far apart samples may be of which one is not missing: the shorter their interval, the more it may vary.
func tolerated(intervalMs int64) int64 {
	switch {
	case intervalMs <= 2_000:
		return 5 * intervalMs
	case intervalMs <= 4_000:
		return 3 * intervalMs
	case intervalMs <= 8_000:
		return 2 * intervalMs
	case intervalMs <= 16_000:
		return intervalMs + intervalMs/2
	case intervalMs <= 32_000:
		return intervalMs + intervalMs/4
	}
	return intervalMs + intervalMs/8
}

// Candles see the samples before the end of the window, and the sample before its begin that is no older than the window is wide.

func (w *window) candle() (before float64, values []float64) {
	n := sort.Search(len(w.times), func(i int) bool { return w.times[i] >= w.endMs })
	if w.previousMs+w.widthMs >= w.endMs {
		return w.previous, w.values[:n]
	}
	return nan(), w.values[:n]
}

func opening(w *window) float64 {
	before, values := w.candle()
	if isNaN(before) && len(values) > 0 {
		return values[0]
	}
	return before
}

func closing(w *window) float64 {
	before, values := w.candle()
	if len(values) > 0 {
		return newest(values)
	}
	return before
}

func candle(f func([]float64) float64) windowFunction {
	return func(w *window) float64 {
		before, values := w.candle()
		switch {
		case len(values) == 0:
			return before
		case isNaN(before):
			return f(values)
		}
		return f([]float64{before, f(values)})
	}
}

// withoutName returns labels without the metric's name.
func withoutName(l labels.Labels) labels.Labels {
	return l.DropReserved(func(name string) bool { return name == model.MetricNameLabel })
}

// isEmpty reports whether no step has a value.
func isEmpty(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) })
}
