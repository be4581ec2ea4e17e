package promql

import (
	"math"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/scan"
)

// plan is what the text of an expression says about how its series may be read.
type plan struct {
	lookbackMs int64
	// gridKnown: the times at which selections are looked at follow from their hints.
	gridKnown bool
	// order is fixed where the engine's answer may depend on it, as its sums of floats do.
	order order
}

// planOf reads an expression. Subqueries have steps of their own, smoothed and anchored
// ranges look beyond the usual ones, info selects by itself, and timestamp looks at a selector
// with @ as if it had no offset, which its hints have: their grid is not known.
func planOf(expr parser.Expr, lookback time.Duration) plan {
	p := plan{lookbackMs: lookback.Milliseconds(), gridKnown: true}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.SubqueryExpr:
			p.gridKnown = false
		case *parser.VectorSelector:
			if n.Anchored || n.Smoothed {
				p.gridKnown = false
			}
		case *parser.AggregateExpr:
			p.order = orderFixed
		case *parser.Call:
			switch n.Func.Name {
			case "info":
				p.gridKnown = false
			case "timestamp", "start_timestamp":
				v, ok := withoutParens(n.Args[0]).(*parser.VectorSelector)
				p.gridKnown = p.gridKnown && !(ok && (v.Timestamp != nil || v.StartOrEnd != 0))
			case "sort", "sort_desc", "sort_by_label", "sort_by_label_desc", "scalar", "absent", "absent_over_time":
				p.order = orderFixed
			}
		}
		return nil
	})
	return p
}

// subqueryStepsMax bounds the steps of one subquery: the engine makes lists as long before
// it looks at a sample.
const subqueryStepsMax = 1_000_000

// defaultStepMs is the step of a subquery that has none.
const defaultStepMs = 60_000

// subquerySteps returns the greatest number of steps that a subquery of an expression has
// when it is evaluated over spanMs, each counted within those around it.
func subquerySteps(expr parser.Expr, spanMs int64) int64 {
	most := int64(0)
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		inner, ok := node.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		ms := float64(spanMs) // of years of years
		for _, n := range append(path[:len(path):len(path)], inner) {
			if s, ok := n.(*parser.SubqueryExpr); ok {
				ms += float64(s.Range.Milliseconds())
			}
		}
		step := inner.Step.Milliseconds()
		if step <= 0 {
			step = defaultStepMs
		}
		most = max(most, int64(min(ms/float64(step), math.MaxInt32))+1)
		return nil
	})
	return most
}

// grid is the times at which a selection is looked at: firstMs, firstMs+stepMs, … up to
// lastMs, which is one of them. At each time g the samples in (g-widthMs, g] can be seen, and with lastOnly just
// the newest of these.
type grid struct {
	firstMs, lastMs, stepMs, widthMs int64
	lastOnly                         bool
}

// grid returns the grid of a selection, or false where it is not known.
func (p plan) grid(hints *storage.SelectHints) (grid, bool) {
	if !p.gridKnown || hints == nil {
		return grid{}, false
	}
	g := grid{widthMs: hints.Range, stepMs: max(1, hints.Step), lastMs: hints.End}
	if g.widthMs == 0 {
		g.widthMs, g.lastOnly = p.lookbackMs, true
	}
	g.firstMs = hints.Start + g.widthMs - 1
	if g.firstMs > g.lastMs || g.widthMs <= 0 || g.lastMs-g.firstMs < 0 { // more than can be counted
		return grid{}, false
	}
	g.lastMs = g.firstMs + (g.lastMs-g.firstMs)/g.stepMs*g.stepMs // the end need not be a step
	return g, true
}

// single reports whether there is one time only.
func (g grid) single() bool { return g.firstMs+g.stepMs > g.lastMs }

// at returns the first time of the grid at or after t, which may be behind its last.
func (g grid) at(t int64) int64 {
	if t <= g.firstMs {
		return g.firstMs
	}
	return g.firstMs + (t-g.firstMs+g.stepMs-1)/g.stepMs*g.stepMs
}

// steps is how many times there are.
func (g grid) steps() int { return int((g.lastMs-g.firstMs)/g.stepMs) + 1 }

// request returns the steps that a source is asked for; false: no sample can be seen at any of them.
// What storage takes for the whole of time is narrower than what Prometheus does.
func (g grid) request(function scan.StepFunction) (*scan.Steps, bool) {
	if g.firstMs < scan.TimeMsMin {
		// Unsigned: the first step may be as far before as all of time is long.
		before := (uint64(scan.TimeMsMin-g.firstMs) + uint64(g.stepMs) - 1) / uint64(g.stepMs)
		g.firstMs += int64(before * uint64(g.stepMs))
	}
	if g.firstMs < scan.TimeMsMin || g.firstMs > min(g.lastMs, scan.TimeMsMax) {
		return nil, false
	}
	steps := (min(g.lastMs, scan.TimeMsMax) - g.firstMs) / g.stepMs
	s := &scan.Steps{FirstMs: g.firstMs, LastMs: g.firstMs + steps*g.stepMs, StepMs: g.stepMs, RangeMs: g.widthMs, Function: function}
	if steps == 0 {
		s.StepMs = 1
	}
	return s, true
}

// thin appends the samples that can be seen, of a grid without lastOnly. Calls for the stretches
// of one series come in the order of time; next is the state between them, 0 values before the first.
func (g grid) thin(toTimes []int64, toValues []float64, next *int64, times []int64, values []float64) ([]int64, []float64) {
	values = values[:len(times)]
	at := *next
	if len(toTimes) == 0 {
		at = g.firstMs
	}
	for i, t := range times {
		if t > at {
			at = g.at(t)
		}
		if at > g.lastMs {
			break
		}
		if t > at-g.widthMs {
			toTimes, toValues = append(toTimes, t), append(toValues, values[i])
		}
	}
	*next = at
	return toTimes, toValues
}

func withoutParens(expr parser.Expr) parser.Expr {
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			return expr
		}
		expr = p.Expr
	}
}
