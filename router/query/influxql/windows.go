package influxql

import (
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// windows are aggregates of one field of one table by window, of those that hold a value.
// Only what was asked for is there.
type windows struct {
	place  int // of the field among the inputs
	starts []int64
	counts []int64
	sums   []float64

	least, most, first, last         []float64
	leastAt, mostAt, firstAt, lastAt []int64 // when; empty: not known
}

// windowRead describes which aggregates a read needs.
type windowRead struct {
	aggregates scan.Aggregate
	timed      bool // when the least, first and so on were counts: samples have to be read
	fields     []string
	interval   interval
}

// windowWorker folds the series that one visitor sees into windows.
type windowWorker struct {
	pieces
	read   *windowRead
	span   span
	now    *windows
	end    int64 // of the open window
	result []*table
	starts []int64 // of the windows of the open series
	before []int64 // starts of the windows of the series before
}

// windows reads aggregates by window: one table for each series.
func (l *loader) windows(of span, read *windowRead) ([]*table, error) {
	request := &scan.Request{Selector: l.selector(read.fields), Limits: l.reader.entry.Limits(), Parallel: l.reader.parallel}
	request.FromMs, request.ToMs = msRange(of.from, of.to)
	if request.FromMs > request.ToMs {
		return nil, nil
	}
	if tables, ok, err := l.search(of, read, request); err != nil || ok {
		return tables, err
	}
	pushed := !read.timed && (read.interval.durationNs == 0 || read.interval.isPlain())
	if pushed {
		w := scan.Windows{OriginMs: request.FromMs, WidthMs: request.ToMs - request.FromMs + 1, Aggregates: read.aggregates}
		if read.interval.durationNs != 0 {
			w.OriginMs, w.WidthMs = read.interval.offsetNs/nsPerMs, read.interval.durationNs/nsPerMs
		}
		request.Windows = &w
	}
	workers := make([]windowWorker, l.reader.parallel)
	for i := range workers {
		workers[i].loader, workers[i].read, workers[i].span = l, read, of
	}
	err := l.reader.source.Scan(l.reader.ctx, request, func(worker int, c *scan.Chunk) error {
		w := &workers[worker]
		if err := w.start(c.Key); err != nil || w.skip {
			return err
		}
		if pushed {
			return w.take(c)
		}
		return w.fold(c)
	})
	if err != nil {
		return nil, err
	}
	var all []*table
	for i := range workers {
		if err := workers[i].close(); err != nil {
			return nil, err
		}
		all = append(all, workers[i].result...)
	}
	slices.SortStableFunc(all, compareTables)
	return all, nil
}

// start begins another series when the key has changed.
func (w *windowWorker) start(key series.Key) error {
	if string(key) == string(w.key) {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.key = append(w.key[:0], key...)
	var err error
	w.skip, err = w.begin()
	w.now, w.end = &windows{}, math.MinInt64
	return err
}

// take keeps windows as they came.
func (w *windowWorker) take(c *scan.Chunk) error {
	n := w.now
	before := w.bytes()
	for _, t := range c.Times {
		start := t * nsPerMs
		if w.read.interval.durationNs == 0 {
			start = w.span.from
		}
		w.starts = append(w.starts, start)
	}
	n.starts = w.starts
	n.counts = append(n.counts, c.Count...)
	n.sums = append(n.sums, c.Sum...)
	n.least, n.most = append(n.least, c.Min...), append(n.most, c.Max...)
	n.first, n.last = append(n.first, c.First...), append(n.last, c.Last...)
	return w.loader.reader.take(w.loader.held, w.bytes()-before)
}

// bytes is about what the windows of the series hold.
func (w *windowWorker) bytes() int64 {
	n := w.now
	return 8 * int64(len(n.starts)+len(n.counts)+len(n.sums)+len(n.least)+len(n.most)+len(n.first)+len(n.last)+
		len(n.leastAt)+len(n.mostAt)+len(n.firstAt)+len(n.lastAt))
}

// fold puts samples into windows.
func (w *windowWorker) fold(c *scan.Chunk) error {
	before := w.bytes()
	for i, v := range c.Values {
		if v == v {
			w.put(c.Times[i]*nsPerMs, v)
		}
	}
	return w.loader.reader.take(w.loader.held, w.bytes()-before)
}

// put adds a value to its window; times grow.
func (w *windowWorker) put(t int64, v float64) {
	n := w.now
	fresh := len(n.starts) == 0 || t >= w.end
	if fresh {
		start := w.span.from
		w.end = math.MaxInt64
		if w.read.interval.durationNs != 0 {
			start, w.end = w.read.interval.window(t)
		}
		w.starts = append(w.starts, start)
		n.starts = w.starts
	}
	asked := w.read.aggregates
	if asked&scan.AggregateCount != 0 {
		if fresh {
			n.counts = append(n.counts, 0)
		}
		n.counts[len(n.counts)-1]++
	}
	if asked&scan.AggregateSum != 0 {
		if fresh {
			n.sums = append(n.sums, 0)
		}
		n.sums[len(n.sums)-1] += v
	}
	if asked&scan.AggregateMin != 0 {
		n.least, n.leastAt = replace(n.least, n.leastAt, t, v, fresh, func(now float64) bool { return v < now })
	}
	if asked&scan.AggregateMax != 0 {
		n.most, n.mostAt = replace(n.most, n.mostAt, t, v, fresh, func(now float64) bool { return v > now })
	}
	if asked&scan.AggregateFirst != 0 {
		n.first, n.firstAt = replace(n.first, n.firstAt, t, v, fresh, func(float64) bool { return false })
	}
	if asked&scan.AggregateLast != 0 {
		n.last, n.lastAt = replace(n.last, n.lastAt, t, v, fresh, func(float64) bool { return true })
	}
}

// replace puts a value and its time in the place of the last ones, or behind them when a
// window is fresh.
func replace(values []float64, times []int64, t int64, v float64, fresh bool, better func(now float64) bool) ([]float64, []int64) {
	if fresh {
		return append(values, v), append(times, t)
	}
	if i := len(values) - 1; better(values[i]) {
		values[i], times[i] = v, t
	}
	return values, times
}

// close keeps the windows of the series that has been visited, if any.
func (w *windowWorker) close() error {
	if len(w.key) == 0 || w.skip || w.now == nil || len(w.now.starts) == 0 {
		w.key = w.key[:0]
		return nil
	}
	tags, order, field := splitTags(w.parts)
	l := w.loader
	switch {
	case slices.Equal(w.before, w.now.starts):
		w.now.starts = w.before
	default:
		w.now.starts = slices.Clone(w.starts)
	}
	w.before, w.starts = w.now.starts, w.starts[:0]
	w.now.place = placeOf(l.inputs, field)
	t := &table{name: l.m.name, tags: tags, order: order, windows: w.now}
	for i, ref := range l.inputs {
		if l.m.hasField(ref.Val) {
			continue
		}
		if t.columns == nil {
			t.columns = make([]column, len(l.inputs))
		}
		t.columns[i] = tagColumn(t, ref.Val)
	}
	w.result = append(w.result, t)
	w.key = w.key[:0]
	return l.reader.take(l.held, int64(pieceBytes+2*len(w.key)))
}

// newest reads the newest value of each series, if it can be told by that alone: ok is
// false when a series has a value after the span, or none that is a number.
func (l *loader) newest(of span, fields []string) (all []*table, ok bool, err error) {
	from, to := msRange(of.from, of.to)
	selector := l.selector(fields)
	w := windowWorker{pieces: pieces{loader: l}, read: &windowRead{aggregates: scan.AggregateLast}, span: of}
	ok = true
	err = l.reader.source.Last(l.reader.ctx, &selector, from, l.reader.entry.Limits(), func(p scan.Point) error {
		if p.TimeMs > to || p.Value != p.Value {
			ok = false
			return scan.ErrStopped
		}
		if err := w.start(p.Key); err != nil || w.skip {
			return err
		}
		w.put(p.TimeMs*nsPerMs, p.Value)
		return nil
	})
	if err == nil {
		err = w.close()
	}
	if err != nil || !ok {
		return nil, false, err
	}
	slices.SortStableFunc(w.result, compareTables)
	return w.result, true, nil
}
