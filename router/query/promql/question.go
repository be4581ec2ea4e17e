package promql

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// span is when an expression is evaluated: at start, start+step, … up to end; at start only
// when step is 0.
type span struct {
	start, end time.Time
	step       time.Duration
}

// stepsMore returns how many steps there are after the first.
func (s span) stepsMore() uint64 {
	if length := s.end.Sub(s.start); length < math.MaxInt64 {
		return uint64(length / s.step)
	}
	// Of more than 292 years there is no Duration.
	return uint64(s.end.UnixMilli()-s.start.UnixMilli()) / uint64(s.step.Milliseconds())
}

// question is an expression that is to be evaluated, and how.
type question struct {
	expr          parser.Expr
	statistics    string
	lookback      time.Duration
	span          span
	subquerySteps int64       // that the longest of its subqueries has
	computed      []*computed // that selectors in it stand for
}

// newQuery returns the query of a question. Statistics are the engine's own only where the engine does everything.
func (h *handler) newQuery(x *exchange, of question) (query, error) {
	source := &queryable{source: x.reader.Source, database: x.database, parallel: h.options.Parallel, plan: planOf(of.expr, of.lookback), deduplicateMs: h.deduplicateMs(), computed: of.computed, rawFrom: h.options.RawFrom}
	expr, s := of.expr, of.span
	isVector := expr.Type() == parser.ValueTypeVector || expr.Type() == parser.ValueTypeScalar
	if of.statistics == "" && isVector {
		expr, source.ranged = takeOut(expr, s)
		if len(of.computed) == 0 {
			if direct := source.direct(expr, s, h.options.SamplesMax); direct != nil {
				return direct, nil
			}
		}
	}
	steps := int64(1)
	if s.step > 0 {
		steps += int64(s.stepsMore())
	}
	source.labels = labelCallsOf(expr, max(steps, of.subquerySteps))
	text := h.prepared.put(expr)
	defer h.prepared.forget(text)
	opts := promql.NewPrometheusQueryOpts(of.statistics == statsAll, of.lookback)
	if s.step == 0 {
		return h.engine.NewInstantQuery(x.ctx, source, opts, text, s.start)
	}
	return h.engine.NewRangeQuery(x.ctx, source, opts, text, s.start, s.end, s.step)
}

// takeSubqueries takes the memory of the lists of steps that the subqueries of an expression, which text is of, have, and returns how many
// the longest has.
func (h *handler) takeSubqueries(x *exchange, text string, expr parser.Expr, s span) (steps int64, err error) {
	if h.options.Experimental { // durations may be expressions, which the engine evaluates in its own copy only
		if expr, err = h.parser.ParseExpr(text); err != nil {
			return 0, invalidQuery(err)
		}
		if expr, err = promql.PreprocessExpr(expr, s.start, s.end, s.step); err != nil {
			return 0, invalidQuery(err)
		}
	}
	steps = subquerySteps(expr, s.end.Sub(s.start).Milliseconds())
	if steps > subqueryStepsMax {
		return 0, &apiError{http.StatusUnprocessableEntity, kindExecution, fmt.Errorf("a subquery has %d steps, more than %d: take a longer step or a shorter range", steps, subqueryStepsMax)}
	}
	return steps, x.entry.Take(2 * 8 * steps)
}
