package promql

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// queryable opens what one query reads of one database.
type queryable struct {
	source   scan.Source
	database string
	parallel int
	plan     plan
	ranged   []*rangedCall // that were taken out of the expression
	labels   *labelCalls   // nil: the expression has none
	computed []*computed   // that selectors of the expression stand for

	deduplicateMs int64                               // see Options.DeduplicateInterval
	rawFrom       func(database, metric string) int64 // see Options.RawFrom
}

// Querier implements storage.Queryable.
func (q *queryable) Querier(fromMs, toMs int64) (storage.Querier, error) {
	return &querier{queryable: q, fromMs: fromMs, toMs: toMs}, nil
}

// querier reads a range of time.
type querier struct {
	*queryable
	fromMs, toMs int64
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// Select implements storage.Querier. The series are read before it returns.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var runs [][]column
	var notes annotations.Annotations
	var err error
	if c := q.computedOf(matchers); c != nil {
		runs = c.runs
	} else if c := q.rangedOf(matchers); c != nil {
		runs, notes, err = q.readRanged(ctx, c)
	} else {
		runs, notes, err = q.read(ctx, hints, matchers)
	}
	if err == nil && q.labels != nil {
		err = q.labels.read(admission.Of(ctx), runs)
	}
	switch {
	case err != nil:
		return storage.ErrSeriesSet(err)
	case sorted:
		return &rankedSet{ranked: rank(runs, orderLabels, q.parallel), notes: notes}
	case q.plan.order != orderNone:
		return &rankedSet{ranked: rank(runs, q.plan.order, q.parallel), notes: notes}
	}
	return &columnSet{runs: runs, notes: notes}
}

// readRanged returns the values of a call at the steps.
func (q *querier) readRanged(ctx context.Context, c *rangedCall) ([][]column, annotations.Annotations, error) {
	selectors, err := selectorsOf(ctx, q.source, q.database, c.vector.LabelMatchers)
	if err != nil || len(selectors) == 0 {
		return nil, nil, err
	}
	request, ok := c.grid.request(c.function)
	if !ok {
		return nil, nil, nil
	}
	request.DeduplicateMs = q.deduplicateMs
	r := reading{source: q.source, entry: admission.Of(ctx), selectors: selectors, parallel: max(1, q.parallel), grid: c.grid, ranged: c, steps: request}
	r.fromMs, r.toMs = rangeOf(request)
	runs, err := r.columns(ctx)
	if err == nil && r.lossy.Load() && sameLabels(runs) {
		err = errSameLabels
	}
	if err != nil || len(runs) == 0 {
		return nil, nil, err
	}
	notes := c.notes()
	return runs, notes.Merge(q.rawNotes(&r, runs)), nil
}

// rangeOf returns the first and the last time that steps can see.
func rangeOf(s *scan.Steps) (fromMs, toMs int64) {
	return max(s.FirstMs-s.RangeMs+1, scan.TimeMsMin), s.LastMs
}

// errSameLabels has the engine's words.
var errSameLabels = errors.New("vector cannot contain metrics with the same labelset")

// sameLabels reports whether two columns have the same labels.
func sameLabels(runs [][]column) bool {
	known := map[uint64]struct{}{}
	for _, run := range runs {
		for i := range run {
			hash := run[i].labels.Hash()
			if _, found := known[hash]; found {
				return true
			}
			known[hash] = struct{}{}
		}
	}
	return false
}

// read returns the series that match, as lists without an order.
func (q *querier) read(ctx context.Context, hints *storage.SelectHints, matchers []*labels.Matcher) ([][]column, annotations.Annotations, error) {
	selectors, err := selectorsOf(ctx, q.source, q.database, matchers)
	if err != nil || len(selectors) == 0 {
		return nil, nil, err
	}
	r := reading{source: q.source, entry: admission.Of(ctx), selectors: selectors, fromMs: q.fromMs, toMs: q.toMs, parallel: max(1, q.parallel), deduplicateMs: q.deduplicateMs}
	if hints != nil {
		r.fromMs, r.toMs = hints.Start, hints.End
	}
	// What storage takes for the whole of time is narrower than what Prometheus does.
	r.fromMs, r.toMs = max(r.fromMs, scan.TimeMsMin), min(r.toMs, scan.TimeMsMax)
	if r.grid, r.thin = q.plan.grid(hints); r.thin {
		r.toMs = min(r.toMs, r.grid.lastMs)
	}
	runs, err := r.columns(ctx)
	return runs, q.rawNotes(&r, runs), err
}

// reading is one selection while it is read.
type reading struct {
	source       scan.Source
	entry        *admission.Entry
	selectors    []scan.Selector
	fromMs, toMs int64
	parallel     int
	grid         grid
	thin         bool
	ranged       *rangedCall // nil: samples are wanted as they are
	steps        *scan.Steps // that the source is asked for; nil: samples
	lossy        atomic.Bool // of a call: see naming

	deduplicateMs int64 // see Options.DeduplicateInterval
}

// columns returns the series that were read, as lists without an order.
func (r *reading) columns(ctx context.Context) ([][]column, error) {
	if r.fromMs > r.toMs {
		return nil, nil
	}
	if r.thin && r.grid.lastOnly {
		if r.grid.single() {
			runs, whole, err := r.newest(ctx)
			if err != nil || whole {
				return runs, err
			}
		}
		var ok bool
		if r.steps, ok = r.grid.request(scan.StepNewest); !ok {
			return nil, nil
		}
		r.steps.DeduplicateMs = r.deduplicateMs
		r.thin = false // the source leaves out what is not seen
		if r.steps.Check() != nil {
			r.steps = nil
		}
	}
	if len(r.selectors) == 1 {
		return r.scan(ctx, &r.selectors[0], r.parallel)
	}
	return r.each(ctx, func(ctx context.Context, selector *scan.Selector) ([][]column, error) {
		return r.scan(ctx, selector, 1)
	})
}

// scan reads the samples of one selector.
func (r *reading) scan(ctx context.Context, selector *scan.Selector, parallel int) ([][]column, error) {
	collectors := make([]collector, parallel)
	for i := range collectors {
		collectors[i] = collector{entry: r.entry, grid: r.grid, thin: r.thin, ranged: r.ranged}
		if r.steps == nil && r.deduplicateMs > 0 {
			collectors[i].newest = steps.NewDeduplicator(r.deduplicateMs)
		}
	}
	request := &scan.Request{Selector: *selector, FromMs: r.fromMs, ToMs: r.toMs, Steps: r.steps, Parallel: parallel}
	if err := r.source.Scan(ctx, request, func(worker int, chunk *scan.Chunk) error { return collectors[worker].visit(chunk) }); err != nil {
		return nil, fromSource(err)
	}
	var runs [][]column
	for i := range collectors {
		if err := collectors[i].finish(); err != nil {
			return nil, err
		}
		runs = append(runs, collectors[i].runs()...)
		if collectors[i].naming.lossy {
			r.lossy.Store(true)
		}
	}
	return runs, nil
}

// newest reads the newest sample of each series. Whole is false when one of them has a
// younger sample than can be seen: what it hides has to be read by samples then.
func (r *reading) newest(ctx context.Context) (runs [][]column, whole bool, err error) {
	younger := atomic.Bool{}
	parallel := max(1, r.parallel/len(r.selectors))
	runs, err = r.each(ctx, func(ctx context.Context, selector *scan.Selector) ([][]column, error) {
		list := newPoints(r.entry, parallel)
		err := r.source.Last(ctx, selector, r.fromMs, scan.Limits{}, func(p scan.Point) error {
			if p.TimeMs > r.toMs || younger.Load() {
				younger.Store(true)
				return scan.ErrStopped
			}
			return list.add(p)
		})
		if err != nil {
			return nil, fromSource(err)
		}
		return list.finish(ctx)
	})
	return runs, !younger.Load(), err
}

// each reads several selectors, some at a time.
func (r *reading) each(ctx context.Context, read func(context.Context, *scan.Selector) ([][]column, error)) ([][]column, error) {
	results := make([][][]column, len(r.selectors))
	err := inParallel(ctx, r.parallel, len(r.selectors), func(ctx context.Context, i int) (err error) {
		results[i], err = read(ctx, &r.selectors[i])
		return err
	})
	return slices.Concat(results...), err
}
