package promql

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/scan"
)

// The engine evaluates with one processor, after all samples have been read. A function of
// a range of one metric, like rate(x[5m]), needs but one series at a time. Such calls are
// taken out of the expression and evaluated where the samples are, by storage or by the nodes of
// a cluster (scan.Steps), with the bits of the engine's own functions (api/scan/steps). What is left in
// their place is a selector that finds their results, as samples at the times of the steps.

// rangedLabel is in the selector that stands for a call, for people who debug: the call
// knows the selector by its matcher, so that nobody can write such a selector.
const rangedLabel = "__ranged__"

// rangedFunctions are evaluated so: those whose only argument is the range, and that give
// a value for one series from its samples alone.
//
//nolint:gochecknoglobals // a constant table
var rangedFunctions = map[string]scan.StepFunction{
	"rate": scan.StepRate, "increase": scan.StepIncrease, "delta": scan.StepDelta, "irate": scan.StepIrate, "idelta": scan.StepIdelta,
	"deriv": scan.StepDeriv, "changes": scan.StepChanges, "resets": scan.StepResets, "avg_over_time": scan.StepAvg, "sum_over_time": scan.StepSum,
	"min_over_time": scan.StepMin, "max_over_time": scan.StepMax, "count_over_time": scan.StepCount, "stddev_over_time": scan.StepStddev,
	"stdvar_over_time": scan.StepStdvar, "present_over_time": scan.StepPresent, "last_over_time": scan.StepLast,
}

// rangedCall is a call that was taken out.
type rangedCall struct {
	call     *parser.Call
	function scan.StepFunction
	vector   *parser.VectorSelector
	offsetMs int64
	grid     grid            // of the range's ends: the steps less the offset
	mark     *labels.Matcher // of the selector in its place
}

// keepsName reports whether results have the name of the metric.
func (c *rangedCall) keepsName() bool { return c.function == scan.StepLast }

// labels returns the labels of the result for a series.
func (c *rangedCall) labels(metric labels.Labels) labels.Labels {
	if c.keepsName() {
		return metric
	}
	return metric.DropReserved(schema.IsMetadataLabel)
}

// notes returns the engine's note on what may be no counter, of results of which there are some.
func (c *rangedCall) notes() (notes annotations.Annotations) {
	if c.function != scan.StepRate && c.function != scan.StepIncrease {
		return nil
	}
	metric := metricOf(c.vector)
	for _, suffix := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(metric, suffix) {
			return nil
		}
	}
	return notes.Add(annotations.NewPossibleNonCounterInfo(metric, c.call.Args[0].PositionRange()))
}

// takeOut takes the calls out of an expression, which it changes, and returns them. None:
// they are as well left to the engine.
func takeOut(expr parser.Expr, s span) (parser.Expr, []*rangedCall) {
	fit := true
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if call, ok := node.(*parser.Call); ok {
			switch call.Func.Name {
			case "absent", "absent_over_time", "info": // they look at the selectors
				fit = false
			}
		}
		return nil
	})
	if !fit {
		return expr, nil
	}
	t := taking{span: s}
	return t.visit(expr), t.calls
}

type taking struct {
	span  span
	calls []*rangedCall
}

// visit returns what stands in the place of an expression. It leaves subqueries alone, which
// have steps of their own.
func (t *taking) visit(expr parser.Expr) parser.Expr {
	switch n := expr.(type) {
	case *parser.ParenExpr:
		n.Expr = t.visit(n.Expr)
	case *parser.UnaryExpr:
		n.Expr = t.visit(n.Expr)
	case *parser.AggregateExpr:
		n.Expr = t.visit(n.Expr)
	case *parser.BinaryExpr:
		n.LHS, n.RHS = t.visit(n.LHS), t.visit(n.RHS)
	case *parser.Call:
		if c := t.rangedCall(n); c != nil {
			c.mark = labels.MustNewMatcher(labels.MatchEqual, rangedLabel, n.String())
			t.calls = append(t.calls, c)
			return &parser.VectorSelector{LabelMatchers: []*labels.Matcher{c.mark}, PosRange: n.PositionRange()}
		}
		for i := range n.Args {
			n.Args[i] = t.visit(n.Args[i])
		}
	}
	return expr
}

// rangedCall reports whether a call can be taken out. The metric has to be one, so that
// labels without it are those of one series.
func (t *taking) rangedCall(call *parser.Call) *rangedCall {
	function, known := rangedFunctions[call.Func.Name]
	if !known || len(call.Args) != 1 {
		return nil
	}
	matrix, ok := call.Args[0].(*parser.MatrixSelector)
	if !ok || matrix.Range < time.Millisecond || matrix.RangeExpr != nil {
		return nil
	}
	vector, ok := matrix.VectorSelector.(*parser.VectorSelector)
	if !ok || vector.Timestamp != nil || vector.StartOrEnd != 0 || vector.Anchored || vector.Smoothed || vector.OriginalOffsetExpr != nil || metricOf(vector) == "" {
		return nil
	}
	vector.Offset = vector.OriginalOffset // what the engine does before it evaluates
	c := &rangedCall{call: call, function: function, vector: vector, offsetMs: vector.OriginalOffset.Milliseconds()}
	c.grid = grid{stepMs: max(1, t.span.step.Milliseconds()), widthMs: matrix.Range.Milliseconds()}
	c.grid.firstMs = t.span.start.UnixMilli() - c.offsetMs
	c.grid.lastMs = c.grid.firstMs + (t.span.end.UnixMilli()-t.span.start.UnixMilli())/c.grid.stepMs*c.grid.stepMs
	return c
}

// metricOf returns the metric of all series that a selector picks; empty: they may be of several.
func metricOf(vector *parser.VectorSelector) string {
	for _, m := range vector.LabelMatchers {
		if m.Name == nameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// rangedOf returns the call that a selector stands for, or nil.
func (q *queryable) rangedOf(matchers []*labels.Matcher) *rangedCall {
	for _, c := range q.ranged {
		if len(matchers) == 1 && matchers[0] == c.mark {
			return c
		}
	}
	return nil
}

// prepared is the parser of the engine. It parses nothing: it hands out expressions that were
// measured, parsed and changed before. No text of a client gets here, so none can name the
// expression of another.
type prepared struct {
	parser.Parser
	next atomic.Uint64
	list sync.Map // of parser.Expr, by text
}

// put returns a text that stands for an expression until it is parsed or forgotten.
func (p *prepared) put(expr parser.Expr) (text string) {
	text = strconv.FormatUint(p.next.Add(1), 10)
	p.list.Store(text, expr)
	return text
}

// forget drops the expression of a text that the engine may not have asked for.
func (p *prepared) forget(text string) { p.list.Delete(text) }

var errNotPrepared = errors.New("no expression was prepared under this text")

// ParseExpr implements parser.Parser.
func (p *prepared) ParseExpr(text string) (parser.Expr, error) {
	expr, ok := p.list.LoadAndDelete(text)
	if !ok {
		return nil, errNotPrepared
	}
	return expr.(parser.Expr), nil
}
