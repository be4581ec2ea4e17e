package load

import (
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Windows are aggregates of one field of one table by window, of those that hold a value.
// Only what was asked for is there.
type Windows struct {
	Place  int // of the field among the inputs
	Starts []int64
	Counts []int64
	Sums   []float64

	Least, Most, First, Last         []float64
	LeastAt, MostAt, FirstAt, LastAt []int64 // when; empty: not known
}

// WindowRead describes which aggregates a read needs.
type WindowRead struct {
	Aggregates scan.Aggregate
	Timed      bool // when the least, first and so on were counts: samples have to be read
	Fields     []string
	Interval   Interval
}

// windowWorker folds the series that one visitor sees into windows.
type windowWorker struct {
	seriesCollector
	read   *WindowRead
	span   Span
	now    *Windows
	end    int64 // of the open window
	result []*Table
	starts []int64 // of the windows of the open series
	before []int64 // starts of the windows of the series before
}

// Windows reads aggregates by window: one table for each series.
func (l *Loader) Windows(of Span, read *WindowRead) ([]*Table, error) {
	request := &scan.Request{Selector: l.selector(read.Fields), Limits: l.reader.Entry.Limits(), Parallel: l.reader.Parallel}
	request.FromMs, request.ToMs = MsRange(of.From, of.To)
	if request.FromMs > request.ToMs {
		return nil, nil
	}
	if tables, ok, err := l.search(of, read, request); err != nil || ok {
		return tables, err
	}
	pushed := !read.Timed && (read.Interval.DurationNs == 0 || read.Interval.isPlain())
	if pushed {
		w := scan.Windows{OriginMs: request.FromMs, WidthMs: request.ToMs - request.FromMs + 1, Aggregates: read.Aggregates}
		if read.Interval.DurationNs != 0 {
			w.OriginMs, w.WidthMs = read.Interval.OffsetNs/NsPerMs, read.Interval.DurationNs/NsPerMs
		}
		request.Windows = &w
	}
	workers := make([]windowWorker, l.reader.Parallel)
	for i := range workers {
		workers[i].loader, workers[i].read, workers[i].span = l, read, of
	}
	err := l.reader.Source.Scan(l.reader.Ctx, request, func(worker int, c *scan.Chunk) error {
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
	var all []*Table
	for i := range workers {
		if err := workers[i].close(); err != nil {
			return nil, err
		}
		all = append(all, workers[i].result...)
	}
	slices.SortStableFunc(all, CompareTables)
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
	w.now, w.end = &Windows{}, math.MinInt64
	return err
}

// take keeps windows as they came.
func (w *windowWorker) take(c *scan.Chunk) error {
	n := w.now
	before := w.bytes()
	for _, t := range c.Times {
		start := t * NsPerMs
		if w.read.Interval.DurationNs == 0 {
			start = w.span.From
		}
		w.starts = append(w.starts, start)
	}
	n.Starts = w.starts
	n.Counts = append(n.Counts, c.Count...)
	n.Sums = append(n.Sums, c.Sum...)
	n.Least, n.Most = append(n.Least, c.Min...), append(n.Most, c.Max...)
	n.First, n.Last = append(n.First, c.First...), append(n.Last, c.Last...)
	return w.loader.reader.Take(w.loader.held, w.bytes()-before)
}

// bytes returns about what the windows of the series hold.
func (w *windowWorker) bytes() int64 {
	n := w.now
	return 8 * int64(len(n.Starts)+len(n.Counts)+len(n.Sums)+len(n.Least)+len(n.Most)+len(n.First)+len(n.Last)+
		len(n.LeastAt)+len(n.MostAt)+len(n.FirstAt)+len(n.LastAt))
}

// fold puts samples into windows.
func (w *windowWorker) fold(c *scan.Chunk) error {
	before := w.bytes()
	for i, v := range c.Values {
		if v == v {
			w.put(c.Times[i]*NsPerMs, v)
		}
	}
	return w.loader.reader.Take(w.loader.held, w.bytes()-before)
}

// put adds a value to its window; times grow.
func (w *windowWorker) put(t int64, v float64) {
	n := w.now
	fresh := len(n.Starts) == 0 || t >= w.end
	if fresh {
		start := w.span.From
		w.end = math.MaxInt64
		if w.read.Interval.DurationNs != 0 {
			start, w.end = w.read.Interval.Window(t)
		}
		w.starts = append(w.starts, start)
		n.Starts = w.starts
	}
	asked := w.read.Aggregates
	if asked&scan.AggregateCount != 0 {
		if fresh {
			n.Counts = append(n.Counts, 0)
		}
		n.Counts[len(n.Counts)-1]++
	}
	if asked&scan.AggregateSum != 0 {
		if fresh {
			n.Sums = append(n.Sums, 0)
		}
		n.Sums[len(n.Sums)-1] += v
	}
	if asked&scan.AggregateMin != 0 {
		n.Least, n.LeastAt = replace(n.Least, n.LeastAt, t, v, fresh, func(now float64) bool { return v < now })
	}
	if asked&scan.AggregateMax != 0 {
		n.Most, n.MostAt = replace(n.Most, n.MostAt, t, v, fresh, func(now float64) bool { return v > now })
	}
	if asked&scan.AggregateFirst != 0 {
		n.First, n.FirstAt = replace(n.First, n.FirstAt, t, v, fresh, func(float64) bool { return false })
	}
	if asked&scan.AggregateLast != 0 {
		n.Last, n.LastAt = replace(n.Last, n.LastAt, t, v, fresh, func(float64) bool { return true })
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
	if len(w.key) == 0 || w.skip || w.now == nil || len(w.now.Starts) == 0 {
		w.key = w.key[:0]
		return nil
	}
	tags, order, field := splitTags(w.parts)
	l := w.loader
	switch {
	case slices.Equal(w.before, w.now.Starts):
		w.now.Starts = w.before
	default:
		w.now.Starts = slices.Clone(w.starts)
	}
	w.before, w.starts = w.now.Starts, w.starts[:0]
	w.now.Place = placeOf(l.inputs, field)
	t := &Table{Name: l.Of.name, Tags: tags, order: order, Windows: w.now}
	for i, ref := range l.inputs {
		if l.Of.HasField(ref.Val) {
			continue
		}
		if t.Columns == nil {
			t.Columns = make([]Column, len(l.inputs))
		}
		t.Columns[i] = tagColumn(t, ref.Val)
	}
	w.result = append(w.result, t)
	w.key = w.key[:0]
	return l.reader.Take(l.held, int64(seriesDataBytes+2*len(w.key)))
}

// Newest reads the newest value of each series, if it can be told by that alone: ok is
// false when a series has a value after the span, or none that is a number.
func (l *Loader) Newest(of Span, fields []string) (all []*Table, ok bool, err error) {
	from, to := MsRange(of.From, of.To)
	selector := l.selector(fields)
	w := windowWorker{seriesCollector: seriesCollector{loader: l}, read: &WindowRead{Aggregates: scan.AggregateLast}, span: of}
	ok = true
	err = l.reader.Source.Last(l.reader.Ctx, &selector, from, l.reader.Entry.Limits(), func(p scan.Point) error {
		if p.TimeMs > to || p.Value != p.Value {
			ok = false
			return scan.ErrStopped
		}
		if err := w.start(p.Key); err != nil || w.skip {
			return err
		}
		w.put(p.TimeMs*NsPerMs, p.Value)
		return nil
	})
	if err == nil {
		err = w.close()
	}
	if err != nil || !ok {
		return nil, false, err
	}
	slices.SortStableFunc(w.result, CompareTables)
	return w.result, true, nil
}
