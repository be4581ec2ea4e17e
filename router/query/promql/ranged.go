package promql

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"
)

// The engine evaluates with one processor, after all samples have been read. A function of
// a range of one metric, like rate(x[5m]), needs but one series at a time. Such calls are
// taken out of the expression and evaluated by all processors while series arrive, by the
// engine's own functions; what is left in their place is a selector that finds their
// results, as samples at the times of the steps.

// rangedLabel is in the selector that stands for a call, for people who debug: the call
// knows the selector by its matcher, so that nobody can write such a selector.
const rangedLabel = "__ranged__"

// rangedFunctions are evaluated so: those whose only argument is the range, and that give
// a value for one series from its samples alone. The value says whether the name is kept.
//
//nolint:gochecknoglobals // a constant table
var rangedFunctions = map[string]bool{
	"rate": false, "increase": false, "delta": false, "irate": false, "idelta": false, "deriv": false, "changes": false, "resets": false,
	"avg_over_time": false, "sum_over_time": false, "min_over_time": false, "max_over_time": false, "count_over_time": false,
	"stddev_over_time": false, "stdvar_over_time": false, "present_over_time": false, "last_over_time": true,
}

// rangedCall is a call that was taken out.
type rangedCall struct {
	call     *parser.Call
	function promql.FunctionCall
	vector   *parser.VectorSelector
	offsetMs int64
	grid     grid // of the range's ends: the steps less the offset
	keepName bool
	mark     *labels.Matcher // of the selector in its place
}

// takeOut takes the calls out of an expression, which it changes, and gives them. None:
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

// visit gives what stands in the place of an expression. It leaves subqueries alone, which
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

// rangedCall says whether a call can be taken out. The metric has to be one, so that
// labels without it are those of one series.
func (t *taking) rangedCall(call *parser.Call) *rangedCall {
	keepName, known := rangedFunctions[call.Func.Name]
	if !known || len(call.Args) != 1 {
		return nil
	}
	matrix, ok := call.Args[0].(*parser.MatrixSelector)
	if !ok || matrix.Range < time.Millisecond || matrix.RangeExpr != nil {
		return nil
	}
	vector, ok := matrix.VectorSelector.(*parser.VectorSelector)
	if !ok || vector.Timestamp != nil || vector.StartOrEnd != 0 || vector.Anchored || vector.Smoothed || vector.OriginalOffsetExpr != nil || !oneMetric(vector) {
		return nil
	}
	vector.Offset = vector.OriginalOffset // what the engine does before it evaluates
	c := &rangedCall{call: call, function: promql.FunctionCalls[call.Func.Name], vector: vector, offsetMs: vector.OriginalOffset.Milliseconds(), keepName: keepName}
	c.grid = grid{stepMs: max(1, t.span.step.Milliseconds()), widthMs: matrix.Range.Milliseconds()}
	c.grid.firstMs = t.span.start.UnixMilli() - c.offsetMs
	c.grid.lastMs = c.grid.firstMs + (t.span.end.UnixMilli()-t.span.start.UnixMilli())/c.grid.stepMs*c.grid.stepMs
	return c
}

func oneMetric(vector *parser.VectorSelector) bool {
	for _, m := range vector.LabelMatchers {
		if m.Name == nameLabel && m.Type == labels.MatchEqual && m.Value != "" {
			return true
		}
	}
	return false
}

// rangedOf gives the call that a selector stands for, or nil.
func (q *queryable) rangedOf(matchers []*labels.Matcher) *rangedCall {
	for _, c := range q.ranged {
		if len(matchers) == 1 && matchers[0] == c.mark {
			return c
		}
	}
	return nil
}

// rangedWorker evaluates a call for one series after the other. It holds the samples that
// the next step can see, and no others.
type rangedWorker struct {
	*rangedCall
	helper promql.EvalNodeHelper
	matrix promql.Matrix
	notes  annotations.Annotations

	points []promql.FPoint // from points[from] on they may be seen
	from   int
	at     int64 // end of the range of the next step
	given  bool  // the step before has a value
	any    bool  // a step has
	times  []int64
	values []float64
}

func newRangedWorker(c *rangedCall) *rangedWorker {
	w := &rangedWorker{rangedCall: c, helper: promql.EvalNodeHelper{Out: make(promql.Vector, 0, 1)}, matrix: make(promql.Matrix, 1)}
	w.begin()
	return w
}

// begin makes ready for another series.
func (w *rangedWorker) begin() {
	w.points, w.from, w.at = w.points[:0], 0, w.grid.firstMs
	w.given, w.any, w.times, w.values = false, false, w.times[:0], w.values[:0]
}

// bytes is what the worker holds.
func (w *rangedWorker) bytes() int { return 16 * (cap(w.points) + cap(w.times)) }

// add takes the next samples of the series.
func (w *rangedWorker) add(times []int64, values []float64) {
	values = values[:len(times)]
	for i, t := range times {
		for t > w.at && w.at <= w.grid.lastMs {
			if !w.given && w.from == len(w.points) {
				w.at = w.grid.at(t) // steps that see nothing
				break
			}
			w.step()
		}
		if w.at > w.grid.lastMs {
			return
		}
		if t > w.at-w.grid.widthMs && !value.IsStaleNaN(values[i]) {
			w.points = append(w.points, promql.FPoint{T: t, F: values[i]})
		}
	}
}

// pointsKeptMax is how many samples that are seen no more may wait to be dropped, beside as
// many as can be seen.
const pointsKeptMax = 256

// step evaluates the next step, whose samples have all been added.
func (w *rangedWorker) step() {
	for w.from < len(w.points) && w.points[w.from].T <= w.at-w.grid.widthMs {
		w.from++
	}
	if w.from > pointsKeptMax && w.from > len(w.points)/2 {
		w.points = append(w.points[:0], w.points[w.from:]...)
		w.from = 0
	}
	stepMs := w.at + w.offsetMs
	result, ok := w.call1(stepMs, w.points[w.from:len(w.points):len(w.points)])
	switch {
	case ok:
		w.times, w.values = append(w.times, stepMs), append(w.values, result)
		w.any = true
	case w.given:
		w.times, w.values = append(w.times, stepMs), append(w.values, math.Float64frombits(value.StaleNaN))
	}
	w.given = ok
	w.at += w.grid.stepMs
}

// end gives the values of the call at the steps. Where a step has none after one that has,
// there is a staleness marker. The slices are used again.
func (w *rangedWorker) end() ([]int64, []float64) {
	for w.at <= w.grid.lastMs && (w.given || w.from < len(w.points)) {
		w.step()
	}
	return w.times, w.values
}

// labels gives the labels of the result.
func (w *rangedWorker) labels(metric labels.Labels) labels.Labels {
	if w.any && (w.call.Func.Name == "rate" || w.call.Func.Name == "increase") {
		w.noteCounter(metric.Get(nameLabel))
	}
	if w.keepName {
		return metric
	}
	return metric.DropReserved(schema.IsMetadataLabel)
}

// call1 calls the function for one step.
func (w *rangedWorker) call1(stepMs int64, points []promql.FPoint) (result float64, ok bool) {
	if len(points) == 0 {
		return 0, false
	}
	w.matrix[0].Floats = points
	w.helper.Ts = stepMs
	out, notes := w.function(nil, w.matrix, w.call.Args, &w.helper)
	w.notes.Merge(notes)
	w.helper.Out = out[:0]
	if len(out) == 0 {
		return 0, false
	}
	if result = out[0].F; value.IsStaleNaN(result) {
		result = math.NaN()
	}
	return result, true
}

// noteCounter adds the engine's note on what may be no counter.
func (w *rangedWorker) noteCounter(metric string) {
	for _, suffix := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(metric, suffix) {
			return
		}
	}
	w.notes.Add(annotations.NewPossibleNonCounterInfo(metric, w.call.Args[0].PositionRange()))
}

// prepared is a parser for the engine: some texts stand for expressions that were parsed
// and changed before.
type prepared struct {
	parser.Parser
	next atomic.Uint64
	list sync.Map // of parser.Expr, by text
}

// put gives a text that stands for an expression until take.
func (p *prepared) put(expr parser.Expr) (text string) {
	text = "\x00" + strconv.FormatUint(p.next.Add(1), 10) // no expression begins so
	p.list.Store(text, expr)
	return text
}

// ParseExpr implements parser.Parser.
func (p *prepared) ParseExpr(text string) (parser.Expr, error) {
	if expr, ok := p.list.LoadAndDelete(text); ok {
		return expr.(parser.Expr), nil //nolint:forcetypeassert // put stores no others
	}
	return p.Parser.ParseExpr(text)
}
