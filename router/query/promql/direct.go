package promql

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/slab"
)

// query is an expression that can be evaluated once.
type query interface {
	Exec(ctx context.Context) *promql.Result
	Stats() *stats.Statistics
	Close()
}

// directQuery evaluates an expression that is but a selector, or a function of a range that
// was taken out, or a simple aggregation of one of these. The engine would look at each
// sample that was read through an iterator only to copy it.
type directQuery struct {
	queryable  *queryable
	aggregate  *parser.AggregateExpr // of the selector, or nil
	selector   *parser.VectorSelector
	ranged     *rangedCall // that the selector stands for, or nil
	span       span
	samplesMax int
}

// direct returns the direct query of an expression, or nil: it is one for the engine.
func (q *queryable) direct(expr parser.Expr, s span, samplesMax int) *directQuery {
	expr = withoutParens(expr)
	a, ok := expr.(*parser.AggregateExpr)
	if ok {
		if !aggregates(a) {
			return nil
		}
		expr = withoutParens(a.Expr)
	}
	v, ok := expr.(*parser.VectorSelector)
	if !ok || v.Timestamp != nil || v.StartOrEnd != 0 || v.Anchored || v.Smoothed || v.OriginalOffsetExpr != nil {
		return nil
	}
	return &directQuery{queryable: q, aggregate: a, selector: v, ranged: q.rangedOf(v.LabelMatchers), span: s, samplesMax: samplesMax}
}

// Stats returns none: an expression whose statistics are wanted is one for the engine.
func (d *directQuery) Stats() *stats.Statistics { return &stats.Statistics{} }

// Close does nothing: what was read is held by the result alone.
func (d *directQuery) Close() {}

// Exec implements query.
func (d *directQuery) Exec(ctx context.Context) *promql.Result {
	reader := &querier{queryable: d.queryable}
	result := &promql.Result{}
	var runs [][]column
	var err error
	g := d.grid()
	if matrix, notes, ok, err := d.folded(ctx, reader, g); ok || err != nil {
		if err != nil {
			result.Err = err
			return result
		}
		result.Warnings = notes
		return d.finish(result, matrix)
	}
	if d.ranged != nil {
		runs, result.Warnings, err = reader.readRanged(ctx, d.ranged)
	} else {
		hints := &storage.SelectHints{Start: g.firstMs - g.widthMs + 1, End: g.lastMs, Step: g.stepMs}
		runs, result.Warnings, err = reader.read(ctx, hints, d.selector.LabelMatchers)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		result.Err = expanding(err)
		return result
	}
	list, err := d.values(ctx, g, d.ordered(runs))
	if err != nil {
		result.Err = err
		return result
	}
	var matrix promql.Matrix
	if d.aggregate != nil {
		matrix, err = aggregate(ctx, d.aggregate, list, d.span.start.UnixMilli(), g.stepMs, g.steps())
	} else {
		matrix, err = matrixOf(admission.Of(ctx), list)
	}
	if err != nil {
		result.Err = err
		return result
	}
	return d.finish(result, matrix)
}

// finish sets the value of the result.
func (d *directQuery) finish(result *promql.Result, matrix promql.Matrix) *promql.Result {
	if d.span.step > 0 || d.aggregate != nil {
		slices.SortFunc(matrix, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	}
	if d.span.step == 0 {
		result.Value = vectorOf(matrix, d.span.start.UnixMilli())
		return result
	}
	result.Value = matrix
	return result
}

// grid returns the times at which the selector is looked at.
func (d *directQuery) grid() grid {
	g := grid{stepMs: max(1, d.span.step.Milliseconds()), widthMs: d.queryable.plan.lookbackMs, lastOnly: true}
	startMs, endMs := d.span.start.UnixMilli(), d.span.end.UnixMilli()
	g.firstMs = startMs - d.offsetMs()
	g.lastMs = g.firstMs + (endMs-startMs)/g.stepMs*g.stepMs
	return g
}

// ordered returns the columns in the order in which the engine would see them, or in any where that does not
// matter: no aggregation that is done here depends on it.
func (d *directQuery) ordered(runs [][]column) []ranked {
	if d.aggregate != nil {
		return rank(runs, orderNone, d.queryable.parallel)
	}
	return rank(runs, d.queryable.plan.order, d.queryable.parallel)
}

// seriesChecked is how many series are taken between looks at the context.
const seriesChecked = 64

// values returns the series that have a value at one of the steps, with these. There may be
// staleness markers among them.
func (d *directQuery) values(ctx context.Context, g grid, series []ranked) ([]column, error) {
	entry := admission.Of(ctx)
	if err := entry.Take(int64(columnBytes * len(series))); err != nil {
		return nil, err
	}
	list := make([]column, 0, len(series))
	request, ok := g.request(scan.StepNewest)
	if !ok {
		return nil, nil
	}
	var stamps slab.Slab[int64]
	var numbers slab.Slab[float64]
	var times []int64 // of one series
	var values []float64
	if d.ranged == nil {
		times, values = make([]int64, 0, g.steps()), make([]float64, 0, g.steps())
	}
	total := 0
	for i := range series {
		if i%seriesChecked == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c := *series[i].column
		if d.ranged == nil {
			if times, values = steps.AppendNewest(request, times[:0], values[:0], c.times, c.values); len(times) == 0 {
				continue
			}
			for i := range times {
				times[i] += d.offsetMs()
			}
			var grownTimes, grownValues int
			c.times, grownTimes = stamps.Take(len(times))
			c.values, grownValues = numbers.Take(len(times))
			copy(c.times, times)
			copy(c.values, values)
			if grown := grownTimes + grownValues; grown > 0 {
				if err := entry.Take(int64(8 * grown)); err != nil {
					return nil, err
				}
			}
		}
		if total += c.present(); total > d.samplesMax {
			return nil, promql.ErrTooManySamples("query execution")
		}
		list = append(list, c)
	}
	return list, nil
}

// present counts the values that are no staleness markers.
func (c *column) present() int {
	n := 0
	for _, v := range c.values {
		if !steps.IsStale(v) {
			n++
		}
	}
	return n
}

// matrixOf returns series with their values but staleness markers.
func matrixOf(entry *admission.Entry, list []column) (promql.Matrix, error) {
	const pointBytes = 16
	matrix := make(promql.Matrix, len(list))
	var kept slab.Slab[promql.FPoint]
	for i := range list {
		c := &list[i]
		points, grown := kept.Take(len(c.times))
		if grown > 0 {
			if err := entry.Take(int64(pointBytes * grown)); err != nil {
				return nil, err
			}
		}
		n := 0
		for j, t := range c.times {
			if v := c.values[j]; !steps.IsStale(v) {
				points[n] = promql.FPoint{T: t, F: v}
				n++
			}
		}
		matrix[i] = promql.Series{Metric: c.labels, Floats: points[:n]}
	}
	return matrix, nil
}

// vectorOf returns a matrix of single points as the vector of a time.
func vectorOf(matrix promql.Matrix, timeMs int64) promql.Vector {
	vector := make(promql.Vector, len(matrix))
	for i, s := range matrix {
		vector[i] = promql.Sample{Metric: s.Metric, F: s.Floats[0].F, T: timeMs}
	}
	return vector
}
