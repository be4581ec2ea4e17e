package promql

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/tickmesh/tickmesh/router/query/ledger"
	"github.com/tickmesh/tickmesh/router/query/slab"
)

// query is an expression that can be evaluated once.
type query interface {
	Exec(ctx context.Context) *promql.Result
	Stats() *stats.Statistics
	Close()
}

// directQuery evaluates an expression that is but a selector, or a function of a range that
// was taken out. Then the series that are read are the answer, and the engine would look at
// each of their samples through an iterator only to copy it.
type directQuery struct {
	queryable  *queryable
	selector   *parser.VectorSelector
	ranged     *rangedCall // that the selector stands for, or nil
	span       span
	samplesMax int
}

// direct gives the direct query of an expression, or nil: it is one for the engine.
func (q *queryable) direct(expr parser.Expr, s span, samplesMax int) *directQuery {
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			break
		}
		expr = p.Expr
	}
	v, ok := expr.(*parser.VectorSelector)
	if !ok || v.Timestamp != nil || v.StartOrEnd != 0 || v.Anchored || v.Smoothed || v.OriginalOffsetExpr != nil {
		return nil
	}
	return &directQuery{queryable: q, selector: v, ranged: q.rangedOf(v.LabelMatchers), span: s, samplesMax: samplesMax}
}

// Stats gives none: an expression whose statistics are wanted is one for the engine.
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
	if d.ranged != nil {
		runs, result.Warnings, err = reader.readRanged(ctx, d.ranged)
	} else {
		hints := &storage.SelectHints{Start: g.firstMs - g.widthMs + 1, End: g.lastMs, Step: g.stepMs}
		runs, err = reader.read(ctx, hints, d.selector.LabelMatchers)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		result.Err = fmt.Errorf("expanding series: %w", err) // the engine's words
		return result
	}
	matrix, err := d.matrix(ctx, g, runs)
	if err != nil {
		result.Err = err
		return result
	}
	if d.span.step == 0 {
		result.Value = vectorOf(matrix, d.span.start.UnixMilli())
		return result
	}
	slices.SortFunc(matrix, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	result.Value = matrix
	return result
}

// grid gives the times at which the selector is looked at.
func (d *directQuery) grid() grid {
	g := grid{stepMs: max(1, d.span.step.Milliseconds()), widthMs: d.queryable.plan.lookbackMs, lastOnly: true}
	startMs, endMs := d.span.start.UnixMilli(), d.span.end.UnixMilli()
	g.firstMs = startMs - d.offsetMs()
	g.lastMs = g.firstMs + (endMs-startMs)/g.stepMs*g.stepMs
	return g
}

func (d *directQuery) offsetMs() int64 { return d.selector.OriginalOffset.Milliseconds() }

// matrix gives the series that have a value at one of the steps, with these.
func (d *directQuery) matrix(ctx context.Context, g grid, runs [][]column) (promql.Matrix, error) {
	count := 0
	for _, run := range runs {
		count += len(run)
	}
	const pointBytes, seriesBytes = 16, 96
	entry := ledger.Of(ctx)
	if err := entry.Take(int64(seriesBytes * count)); err != nil {
		return nil, err
	}
	matrix := make(promql.Matrix, 0, count)
	points := make([]promql.FPoint, 0, g.steps())
	var kept slab.Slab[promql.FPoint]
	total, offsetMs := 0, d.offsetMs()
	for _, run := range runs {
		for i := range run {
			if d.ranged != nil {
				points = appendValues(points[:0], &run[i])
			} else {
				points = g.appendPoints(points[:0], &run[i], offsetMs)
			}
			if len(points) == 0 {
				continue
			}
			if total += len(points); total > d.samplesMax {
				return nil, promql.ErrTooManySamples("query execution")
			}
			slice, grown := kept.Take(len(points))
			copy(slice, points)
			if grown > 0 {
				if err := entry.Take(int64(pointBytes * grown)); err != nil {
					return nil, err
				}
			}
			matrix = append(matrix, promql.Series{Metric: run[i].labels, Floats: slice})
		}
	}
	return matrix, nil
}

// appendValues appends the values of a column, which are at steps, but staleness markers.
func appendValues(points []promql.FPoint, c *column) []promql.FPoint {
	for i, t := range c.times {
		if v := c.values[i]; !isStale(v) {
			points = append(points, promql.FPoint{T: t, F: v})
		}
	}
	return points
}

// appendPoints appends what a selector gives at the times of the grid, as points that are
// offsetMs later: the newest sample that can be seen, if it is no staleness marker.
func (g grid) appendPoints(points []promql.FPoint, c *column, offsetMs int64) []promql.FPoint {
	next := 0 // sample: those before are not younger than the time
	for at := g.firstMs; at <= g.lastMs; at += g.stepMs {
		for next < len(c.times) && c.times[next] <= at {
			next++
		}
		if next == 0 || c.times[next-1] <= at-g.widthMs { // nothing is seen until the next sample
			if next == len(c.times) {
				break
			}
			at = g.at(c.times[next]) - g.stepMs
			continue
		}
		if v := c.values[next-1]; !isStale(v) {
			points = append(points, promql.FPoint{T: at + offsetMs, F: v})
		}
	}
	return points
}

// vectorOf gives a matrix of single points as the vector of a time.
func vectorOf(matrix promql.Matrix, timeMs int64) promql.Vector {
	vector := make(promql.Vector, len(matrix))
	for i, s := range matrix {
		vector[i] = promql.Sample{Metric: s.Metric, F: s.Floats[0].F, T: timeMs}
	}
	return vector
}
