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

// windowRead says which aggregates a read needs.
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
	starts []int64 // of the open series, where windows come as they are
	before []int64 // starts of the windows of the series before
}

// windows reads aggregates by window: one table for each series.
func (l *loader) windows(of span, read *windowRead) ([]*table, error) {
	request := &scan.Request{Selector: l.selector(read.fields), Limits: l.x.entry.Limits(), Parallel: l.x.limits.Parallel}
	request.FromMs, request.ToMs = msRange(of.from, of.to)
	if request.FromMs > request.ToMs {
		return nil, nil
	}
	pushed := !read.timed && (read.interval.durationNs == 0 || read.interval.isPlain())
	if pushed {
		w := scan.Windows{OriginMs: request.FromMs, WidthMs: request.ToMs - request.FromMs + 1, Aggregates: read.aggregates}
		if read.interval.durationNs != 0 {
			w.OriginMs, w.WidthMs = read.interval.offsetNs/nsPerMs, read.interval.durationNs/nsPerMs
		}
		request.Windows = &w
	}
	workers := make([]windowWorker, l.x.limits.Parallel)
	for i := range workers {
		workers[i].loader, workers[i].read, workers[i].span = l, read, of
	}
	err := l.x.source.Scan(l.x.ctx, request, func(worker int, c *scan.Chunk) error {
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
	return w.loader.x.take(w.loader.held, w.bytes()-before)
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
		if v != v {
			continue
		}
		t := c.Times[i] * nsPerMs
		if len(w.now.starts) == 0 || t >= w.end {
			w.open(t)
		}
		w.now.add(t, v)
	}
	return w.loader.x.take(w.loader.held, w.bytes()-before)
}

// open begins the window of a time.
func (w *windowWorker) open(t int64) {
	start := w.span.from
	w.end = math.MaxInt64
	if w.read.interval.durationNs != 0 {
		start, w.end = w.read.interval.window(t)
	}
	n := w.now
	n.starts = append(n.starts, start)
	n.counts, n.sums = append(n.counts, 0), append(n.sums, 0)
	n.least, n.most = append(n.least, 0), append(n.most, 0)
	n.first, n.last = append(n.first, 0), append(n.last, 0)
	n.leastAt, n.mostAt = append(n.leastAt, 0), append(n.mostAt, 0)
	n.firstAt, n.lastAt = append(n.firstAt, 0), append(n.lastAt, 0)
}

// add adds a value to the last window; times grow.
func (n *windows) add(t int64, v float64) {
	i := len(n.starts) - 1
	if n.counts[i] == 0 {
		n.first[i], n.firstAt[i] = v, t
	}
	if n.counts[i] == 0 || v < n.least[i] {
		n.least[i], n.leastAt[i] = v, t
	}
	if n.counts[i] == 0 || v > n.most[i] {
		n.most[i], n.mostAt[i] = v, t
	}
	n.last[i], n.lastAt[i] = v, t
	n.counts[i]++
	n.sums[i] += v
}

// close keeps the windows of the series that has been visited, if any.
func (w *windowWorker) close() error {
	if len(w.key) == 0 || w.skip || w.now == nil || len(w.now.starts) == 0 {
		w.key = w.key[:0]
		return nil
	}
	tags, field := splitTags(w.parts)
	l := w.loader
	switch {
	case slices.Equal(w.before, w.now.starts):
		w.now.starts = w.before
	case len(w.starts) > 0:
		w.now.starts = slices.Clone(w.starts)
	}
	w.before, w.starts = w.now.starts, w.starts[:0]
	w.now.place = placeOf(l.inputs, field)
	t := &table{name: l.m.name, tags: tags, windows: w.now, columns: make([]column, len(l.inputs))}
	for i, ref := range l.inputs {
		if !l.m.hasField(ref.Val) {
			t.columns[i] = tagColumn(t, ref.Val)
		}
	}
	w.result = append(w.result, t)
	w.key = w.key[:0]
	return l.x.take(l.held, int64(pieceBytes+2*len(w.key)))
}

// newest reads the newest value of each series, if it can be told by that alone: ok is
// false when a series has a value after the span, or none that is a number.
func (l *loader) newest(of span, fields []string) (all []*table, ok bool, err error) {
	from, to := msRange(of.from, of.to)
	selector := l.selector(fields)
	w := windowWorker{pieces: pieces{loader: l}, read: &windowRead{}, span: of}
	ok = true
	err = l.x.source.Last(l.x.ctx, &selector, from, l.x.entry.Limits(), func(p scan.Point) error {
		if p.TimeMs > to || p.Value != p.Value {
			ok = false
			return scan.ErrStopped
		}
		if err := w.start(p.Key); err != nil || w.skip {
			return err
		}
		w.open(p.TimeMs * nsPerMs)
		w.now.add(p.TimeMs*nsPerMs, p.Value)
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
