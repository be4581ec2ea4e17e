package promql

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"pgregory.net/rapid"
)

// exactText returns the text of what a sum or a mean is by math/big, of the engine's values of the series. The
// engine's own sum has rounded more often: it has the same groups at the same times, and nearly the same values where
// no part of the sum may have overflowed.
func exactText(t *rapid.T, engine *handler, database, text string, lookback time.Duration, s span, engines *promql.Result) string {
	expr, err := engine.parser.ParseExpr(text)
	if err != nil {
		t.Fatal(text, err)
	}
	a := withoutParens(expr).(*parser.AggregateExpr)
	inner, _ := evaluate(t, engine, database, a.Expr.String(), "true", lookback, s)
	if inner.Err != nil || engines.Err != nil {
		return resultText(engines)
	}
	cells := map[string]map[int64][]float64{}
	add := func(metric labels.Labels, at int64, v float64) {
		group := labelsOfGroup(a, metric).String()
		if cells[group] == nil {
			cells[group] = map[int64][]float64{}
		}
		cells[group][at] = append(cells[group][at], v)
	}
	seen := 0
	replace := func(metric labels.Labels, at int64, have float64) float64 {
		values := cells[metric.String()][at]
		if len(values) == 0 {
			t.Fatalf("%s: a group %s at %d of nothing", text, metric, at)
		}
		seen++
		exact := exactOf(a.Op, values)
		most := 0.0
		for _, v := range values {
			most = max(most, math.Abs(v))
		}
		if most < 1e300 && math.Abs(exact-have) > 1e-14*most {
			t.Fatalf("%s: %v of %v, and the engine has %v", text, exact, values, have)
		}
		return exact
	}
	switch v := inner.Value.(type) {
	case promql.Vector:
		for _, sample := range v {
			add(sample.Metric, sample.T, sample.F)
		}
		list := engines.Value.(promql.Vector)
		for i := range list {
			list[i].F = replace(list[i].Metric, list[i].T, list[i].F)
		}
	case promql.Matrix:
		for _, one := range v {
			for _, p := range one.Floats {
				add(one.Metric, p.T, p.F)
			}
		}
		for _, one := range engines.Value.(promql.Matrix) {
			for i, p := range one.Floats {
				one.Floats[i].F = replace(one.Metric, p.T, p.F)
			}
		}
	}
	for _, group := range cells {
		seen -= len(group)
	}
	if seen != 0 {
		t.Fatalf("%s: the engine has %d values more than there are", text, seen)
	}
	return resultText(engines)
}

func labelsOfGroup(a *parser.AggregateExpr, metric labels.Labels) labels.Labels {
	b := labels.NewBuilder(metric)
	metric.Range(func(l labels.Label) {
		if slices.Contains(a.Grouping, l.Name) == a.Without || a.Without && l.Name == nameLabel {
			b.Del(l.Name)
		}
	})
	return b.Labels()
}

// exactOf returns the exact sum, rounded, or its mean.
func exactOf(op parser.ItemType, values []float64) float64 {
	total, special := new(big.Float).SetPrec(2300), 0.0
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			special += v
			continue
		}
		total.Add(total, new(big.Float).SetFloat64(v))
	}
	sum, _ := total.Float64()
	n := float64(len(values))
	switch {
	case special != 0: // NaN or an infinity
		return special
	case op == parser.SUM:
		return sum + 0
	case math.IsInf(sum, 0):
		total.SetPrec(53)
		mean, _ := total.Quo(total, big.NewFloat(n)).Float64()
		return mean
	}
	return sum/n + 0
}
