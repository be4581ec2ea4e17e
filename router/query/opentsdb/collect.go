package opentsdb

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/slab"
)

// column is one series after downsampling, filling and rate.
type column struct {
	key    series.Key
	times  []int64 // milliseconds, strictly growing; may be shared with other columns
	values []float64
}

// fetch is what one sub-query got from its scans.
type fetch struct {
	span    span
	columns []column // in the order of their keys where it matters
	samples int64    // samples or windows that were visited
}

// run scans for one sub-query. Columns come in the order of their keys,
// whatever the order in which the source visits them, unless it does not matter.
func (h *handler) run(ctx context.Context, x *reader, q *dataQuery, sub *subQuery) (*fetch, error) {
	entry := admission.Of(ctx)
	f := &fetch{span: sub.span(q.fromMs, q.toMs)}
	if f.span.empty {
		return f, nil
	}
	if d, limit := sub.downsample, entry.Limits().BytesMax; d != nil && d.fill != fillNone && !d.whole && limit > 0 {
		const windowBytes = 16
		if (f.span.outTo-f.span.gridFrom)/d.widthMs > limit/windowBytes {
			return nil, &scan.LimitError{What: "bytes", Limit: limit}
		}
	}
	for i := range sub.selectors {
		request := &scan.Request{
			Selector: sub.selectors[i], FromMs: f.span.scanFrom, ToMs: f.span.scanTo, Parallel: h.limits.Parallel,
		}
		if sub.downsample != nil {
			request.Windows = sub.downsample.pushedWindows(f.span)
		}
		workers := make([]worker, max(1, h.limits.Parallel))
		for w := range workers {
			workers[w] = worker{ctx: ctx, sub: sub, span: f.span, pushed: request.Windows != nil, entry: entry}
		}
		err := x.Scan(ctx, request, func(worker int, chunk *scan.Chunk) error { return workers[worker].visit(chunk) })
		if err != nil {
			return nil, err
		}
		for w := range workers {
			if err := workers[w].finish(); err != nil {
				return nil, err
			}
			if len(f.columns) == 0 {
				f.columns = workers[w].columns
			} else {
				f.columns = append(f.columns, workers[w].columns...)
			}
			f.samples += workers[w].samples
		}
	}
	if sub.aggregator.across != nil && len(sub.selectors) == 1 && !q.showTSUIDs {
		return f, nil
	}
	f.columns = sortColumns(f.columns)
	if len(sub.selectors) > 1 { // one tsuid may be asked for twice
		f.columns = slices.CompactFunc(f.columns, func(a, b column) bool { return bytes.Equal(a.key, b.key) })
	}
	return f, nil
}

// worker receives the chunks of one visitor and makes columns of them.
type worker struct {
	ctx    context.Context
	sub    *subQuery
	span   span
	pushed bool // chunks are windows
	entry  *admission.Entry

	key         series.Key // of the series that is being visited; empty before the first
	times       []int64    // its points so far
	values      []float64
	window      []float64 // numbers of the window that is not complete
	start       int64     // of that window
	end         int64     // of that window, exclusive
	spareTimes  []int64   // what fill reads while it writes the two above
	spareValues []float64
	charged     int64 // bytes taken for the five slices above

	columns []column
	bytes   slab.Slab[byte]
	stamps  slab.Slab[int64]
	numbers slab.Slab[float64]
	samples int64
}

// visit takes one chunk.
func (w *worker) visit(chunk *scan.Chunk) error {
	if !bytes.Equal(w.key, chunk.Key) {
		if err := w.finish(); err != nil {
			return err
		}
		w.key = append(w.key[:0], chunk.Key...)
	}
	w.samples += int64(len(chunk.Times))
	switch {
	case w.pushed:
		w.times = append(w.times, chunk.Times...)
		w.values = w.sub.downsample.function.appendPushed(w.values, chunk)
	case w.sub.downsample != nil:
		w.fold(chunk)
	default:
		w.times = append(w.times, chunk.Times...)
		w.values = append(w.values, chunk.Values...)
	}
	return w.charge()
}

// charge keeps admission control up with the slices that grow with a series.
func (w *worker) charge() error {
	held := int64(8 * (cap(w.times) + cap(w.values) + cap(w.window) + cap(w.spareTimes) + cap(w.spareValues)))
	if held == w.charged {
		return nil
	}
	grown := held - w.charged
	w.charged = held
	return w.entry.Take(grown)
}

// appendPushed appends the function's value of each window of a chunk.
func (a *aggregator) appendPushed(dst []float64, chunk *scan.Chunk) []float64 {
	switch a.pushed {
	case scan.AggregateSum:
		return append(dst, chunk.Sum...)
	case scan.AggregateMin:
		return append(dst, chunk.Min...)
	case scan.AggregateMax:
		return append(dst, chunk.Max...)
	case scan.AggregateFirst:
		return append(dst, chunk.First...)
	case scan.AggregateLast:
		return append(dst, chunk.Last...)
	case scan.AggregateCount:
		for _, n := range chunk.Count {
			dst = append(dst, float64(n))
		}
		return dst
	}
	for i, total := range chunk.Sum { // the mean, which is all that is left
		dst = append(dst, total/float64(chunk.Count[i]))
	}
	return dst
}

// fold puts samples into windows. As in scan.Windows, NaN is no sample.
func (w *worker) fold(chunk *scan.Chunk) {
	d := w.sub.downsample
	for i, t := range chunk.Times {
		v := chunk.Values[i]
		if v != v {
			continue
		}
		if len(w.window) > 0 && t >= w.end {
			w.closeWindow()
		}
		if len(w.window) == 0 {
			if d.whole {
				w.start, w.end = w.span.scanFrom, math.MaxInt64
			} else {
				w.start = d.start(t)
				w.end = d.next(w.start)
			}
		}
		w.window = append(w.window, v)
	}
}

func (w *worker) closeWindow() {
	if len(w.window) > 0 {
		w.times = append(w.times, w.start)
		w.values = append(w.values, w.sub.downsample.function.reduce(w.window))
		w.window = w.window[:0]
	}
}

// finish makes a column of the series that has been visited, if any.
func (w *worker) finish() error {
	if len(w.key) == 0 {
		return nil
	}
	w.closeWindow()
	times, values := w.times, w.values
	if d := w.sub.downsample; d != nil && d.fill != fillNone && !d.whole && len(times) > 0 {
		if err := w.fill(); err != nil {
			return err
		}
		times, values = w.times, w.values
	}
	if w.sub.rate {
		times, values = w.sub.rateOptions.rates(times, values)
	}
	w.times, w.values = w.times[:0], w.values[:0]
	if len(times) == 0 {
		w.key = w.key[:0]
		return nil
	}
	err := w.keep(times, values)
	w.key = w.key[:0]
	return err
}

// columnBytes is what a column itself takes: in a list, in a copy of it, and in the
// places by which these are sorted.
const columnBytes = 2*72 + 16

// keep copies the series that has been visited to where it stays.
func (w *worker) keep(times []int64, values []float64) error {
	c := column{}
	var grownKey, grownTimes, grownValues int
	c.key, grownKey = w.bytes.Take(len(w.key))
	copy(c.key, w.key)
	c.values, grownValues = w.numbers.Take(len(values))
	copy(c.values, values)
	if n := len(w.columns); n > 0 && slices.Equal(w.columns[n-1].times, times) {
		c.times = w.columns[n-1].times
	} else {
		c.times, grownTimes = w.stamps.Take(len(times))
		copy(c.times, times)
	}
	w.columns = append(w.columns, c)
	return w.entry.Take(int64(grownKey + 8*grownTimes + 8*grownValues + columnBytes))
}

// fill adds the windows without a sample, from the span's first window to its
// last. Windows before that, which the scan may have seen, are dropped.
func (w *worker) fill() error {
	d := w.sub.downsample
	times, values := w.times, w.values
	w.times, w.values = w.spareTimes[:0], w.spareValues[:0]
	w.spareTimes, w.spareValues = times, values
	at := 0
	for start := w.span.gridFrom; start <= w.span.outTo; start = d.next(start) {
		for at < len(times) && times[at] < start {
			at++
		}
		value := d.value
		if at < len(times) && times[at] == start {
			value = values[at]
		}
		w.times = append(w.times, start)
		w.values = append(w.values, value)
		if len(w.times)&(1<<12-1) == 0 {
			if err := errors.Join(w.charge(), w.ctx.Err()); err != nil {
				return err
			}
		}
	}
	return w.charge()
}
