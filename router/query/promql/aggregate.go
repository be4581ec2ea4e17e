package promql

import (
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// The engine aggregates step by step and looks for the next value of each series at each
// step. Here series come one after the other and add their values to the cells of all steps.
// A cell gets its values in the order of the series, as in the engine (aggregation in
// promql/engine.go of the pinned version), so that the bits of the results are the same.

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
	value, mean, compensation, count float64
	seen, incremental                bool
}

// add takes the value of another series.
func (c *cell) add(op parser.ItemType, v float64) {
	if !c.seen {
		*c = cell{value: v, mean: v, count: 1, seen: true}
		if op == parser.GROUP {
			c.value = 1
		}
		return
	}
	switch op {
	case parser.SUM:
		c.value, c.compensation = kahansum.Inc(v, c.value, c.compensation)
	case parser.AVG:
		c.addToMean(v)
	case parser.MAX:
		if steps.Above(v, c.value) {
			c.value = v
		}
	case parser.MIN:
		if steps.Below(v, c.value) {
			c.value = v
		}
	case parser.COUNT:
		c.count++
	}
}

// addToMean adds to the sum, or to the mean once the sum would overflow.
func (c *cell) addToMean(v float64) {
	c.count++
	if !c.incremental {
		sum, compensation := kahansum.Inc(v, c.value, c.compensation)
		if !math.IsInf(sum, 0) {
			c.value, c.compensation = sum, compensation
			return
		}
		c.incremental = true
		c.mean = c.value / (c.count - 1)
		c.compensation /= c.count - 1
	}
	q := (c.count - 1) / c.count
	c.mean, c.compensation = kahansum.Inc(v/c.count, q*c.mean, q*c.compensation)
}

// result returns the value of the group.
func (c *cell) result(op parser.ItemType) float64 {
	switch {
	case op == parser.COUNT:
		return c.count
	case op == parser.SUM:
		return c.value + c.compensation
	case op == parser.AVG && c.incremental:
		return c.mean + c.compensation
	case op == parser.AVG:
		return c.value/c.count + c.compensation/c.count
	}
	return c.value
}

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
	const seriesBytes, groupBytes, cellBytes, pointBytes = 16, 96, 48, 16
	entry := admission.Of(ctx)
	if err := entry.Take(int64(seriesBytes*len(input) + (groupBytes+cellBytes*inBlock)*len(groups))); err != nil {
		return nil, err
	}
	cells := make([]cell, inBlock*len(groups))
	next := make([]int, len(input)) // value of each series
	for from := 0; from < count; from += inBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(cells)
		fromMs := startMs + int64(from)*stepMs
		for i := range input {
			at := cells[of[i]*inBlock:][:inBlock]
			next[i] = addValues(at, e.Op, &input[i], next[i], fromMs, stepMs)
		}
		grown := 0
		for i := range groups {
			at, before := cells[i*inBlock:][:inBlock], cap(groups[i].Floats)
			for step := range at {
				if at[step].seen {
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

// addValues adds the values of a series, from one on, to the cells of some steps, and gives
// the first that is behind these.
func addValues(cells []cell, op parser.ItemType, c *column, from int, fromMs, stepMs int64) (next int) {
	step, atMs := 0, fromMs
	for i := from; i < len(c.times); i++ {
		if t := c.times[i]; t != atMs {
			step, atMs = int((t-fromMs)/stepMs), t
		}
		if step >= len(cells) {
			return i
		}
		if v := c.values[i]; !steps.IsStale(v) {
			cells[step].add(op, v)
		}
		step, atMs = step+1, atMs+stepMs
	}
	return len(c.times)
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
