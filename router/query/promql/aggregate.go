package promql

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// The engine aggregates step by step and looks for the next value of each series at each
// step. Here series come one after the other, in any order, and add their values to the cells of all steps.
// A sum is exact until it is rounded, where the engine compensates what it rounds off
// (Kahan and Neumaier), which may leave another last bit, and overflows where only a part of the sum would.

// aggregates reports whether an aggregation is one of those without a parameter that can be
// done in one pass over the series.
func aggregates(e *parser.AggregateExpr) bool {
	switch e.Op {
	case parser.SUM, parser.AVG, parser.MIN, parser.MAX, parser.COUNT, parser.GROUP:
		return e.Param == nil
	}
	return false
}

// cell is one group at one step.
type cell struct {
	sum   exactsum.Sum
	value float64 // the least or greatest
	count int64
}

// add takes the value of another series, and returns by how many bytes the cell has grown.
func (c *cell) add(op parser.ItemType, v float64) (grown int) {
	first := c.count == 0
	c.count++
	switch op {
	case parser.SUM, parser.AVG:
		return c.sum.Add(v)
	case parser.MAX:
		if first || steps.Above(v, c.value) {
			c.value = v
		}
	case parser.MIN:
		if first || steps.Below(v, c.value) {
			c.value = v
		}
	}
	return 0
}

// result returns the value of the group.
func (c *cell) result(op parser.ItemType) float64 {
	switch op {
	case parser.COUNT:
		return float64(c.count)
	case parser.SUM:
		return sumOf(&c.sum)
	case parser.AVG:
		return meanOf(&c.sum, c.count)
	case parser.GROUP:
		return 1
	}
	return c.value
}

// sumOf and meanOf return results of sums. As in the engine, no sum is a negative zero.
func sumOf(s *exactsum.Sum) float64               { return s.Value() + 0 }
func meanOf(s *exactsum.Sum, count int64) float64 { return s.Mean(count) + 0 }

// cellsMax bounds the cells at work: all groups for some steps, but at least one step.
const cellsMax = 1 << 16

// aggregate returns the groups of series whose values are at some of the steps. Staleness
// markers are no values. Errors: that of the context, and what admission control refuses.
func aggregate(ctx context.Context, e *parser.AggregateExpr, input []column, startMs, stepMs int64, count int) (promql.Matrix, error) {
	groups, of := groupsOf(e, input)
	if len(groups) == 0 {
		return groups, nil
	}
	inBlock := max(1, min(count, cellsMax/len(groups)))
	const seriesBytes, groupBytes, cellBytes, pointBytes = 16, 96, 40, 16
	entry := admission.Of(ctx)
	if err := entry.Take(int64(seriesBytes*len(input) + (groupBytes+cellBytes*inBlock)*len(groups))); err != nil {
		return nil, err
	}
	cells := make([]cell, inBlock*len(groups))
	next := make([]int, len(input)) // value of each series
	large := 0                      // bytes of the cells beside themselves
	for from := 0; from < count; from += inBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(cells)
		entry.Give(int64(large))
		large = 0
		fromMs := startMs + int64(from)*stepMs
		for i := range input {
			at := cells[of[i]*inBlock:][:inBlock]
			var grown int
			if next[i], grown = addValues(at, e.Op, &input[i], next[i], fromMs, stepMs); grown > 0 {
				if err := entry.Take(int64(grown)); err != nil {
					return nil, err
				}
				large += grown
			}
		}
		grown := 0
		for i := range groups {
			at, before := cells[i*inBlock:][:inBlock], cap(groups[i].Floats)
			for step := range at {
				if at[step].count > 0 {
					groups[i].Floats = append(groups[i].Floats, promql.FPoint{T: fromMs + int64(step)*stepMs, F: at[step].result(e.Op)})
				}
			}
			grown += cap(groups[i].Floats) - before
		}
		if err := entry.Take(int64(pointBytes * grown)); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// addValues adds the values of a series, from one on, to the cells of some steps. It returns
// the first that is behind these, and by how many bytes cells have grown.
func addValues(cells []cell, op parser.ItemType, c *column, from int, fromMs, stepMs int64) (next, grown int) {
	step, atMs := 0, fromMs
	for i := from; i < len(c.times); i++ {
		if t := c.times[i]; t != atMs {
			step, atMs = int((t-fromMs)/stepMs), t
		}
		if step >= len(cells) {
			return i, grown
		}
		if v := c.values[i]; !steps.IsStale(v) {
			grown += cells[step].add(op, v)
		}
		step, atMs = step+1, atMs+stepMs
	}
	return len(c.times), grown
}

// groupsOf returns the groups, without points, in the order of their first series, and the
// group of each series.
func groupsOf(e *parser.AggregateExpr, input []column) (groups promql.Matrix, of []int) {
	grouping := slices.Sorted(slices.Values(e.Grouping))
	builder := labels.NewBuilder(labels.EmptyLabels())
	known := map[uint64]int{}
	of = make([]int, len(input))
	var hash uint64
	var buf []byte
	for i := range input {
		metric := input[i].labels
		switch {
		case e.Without:
			hash, buf = metric.HashWithoutLabels(buf, grouping...)
		case len(grouping) > 0:
			hash, buf = metric.HashForLabels(buf, grouping...)
		}
		at, ok := known[hash]
		if !ok {
			at = len(groups)
			known[hash] = at
			builder.Reset(metric)
			if e.Without {
				builder.Del(grouping...).Del(nameLabel)
			} else {
				builder.Keep(grouping...)
			}
			groups = append(groups, promql.Series{Metric: builder.Labels()})
		}
		of[i] = at
	}
	return groups, of
}
