package promql

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/router/query/metricsql"
)

// metricsQuery is an expression of MetricsQL that is none of PromQL. It implements metricsql.Engine by the queries of its parts.
type metricsQuery struct {
	handler  *handler
	exchange *exchange
	program  *metricsql.Program
	lookback time.Duration
	span     span
	steps    metricsql.Steps
	notes    annotations.Annotations
}

var _ metricsql.Engine = (*metricsQuery)(nil)

// newMetricsQuery returns the query of a text of which PromQL says syntax.
func (h *handler) newMetricsQuery(x *exchange, text string, lookback time.Duration, s span, syntax error) (query, error) {
	m, err := metricsql.Measure(text)
	if err != nil {
		return nil, notMetricsQL(syntax, err)
	}
	if err := x.entry.Take(m.Bytes()); err != nil {
		return nil, err
	}
	at, err := stepsOf(x, s)
	if err != nil {
		return nil, err
	}
	program, err := metricsql.Compile(text, at)
	if err != nil {
		return nil, notMetricsQL(syntax, err)
	}
	return &metricsQuery{handler: h, exchange: x, program: program, lookback: lookback, span: s, steps: at}, nil
}

// notMetricsQL refuses a text that is neither PromQL nor what there is of MetricsQL.
func notMetricsQL(syntax, err error) error {
	return badData(fmt.Errorf("%w; as MetricsQL: %w", syntax, err))
}

// stepsOf returns the steps of a query. One of a single time may name a step, which is that of windows that are left out.
func stepsOf(x *exchange, s span) (metricsql.Steps, error) {
	at := metricsql.Steps{FirstMs: s.start.UnixMilli(), LastMs: s.end.UnixMilli(), StepMs: s.step.Milliseconds()}
	if s.step > 0 {
		at.LastMs = at.FirstMs + (at.LastMs-at.FirstMs)/at.StepMs*at.StepMs
		return at, nil
	}
	step, err := durationParameter(x.form, "step")
	at.StepMs = max(1, cmp.Or(step, rangeDefault).Milliseconds())
	return at, err
}

// Stats returns none: there are several queries.
func (q *metricsQuery) Stats() *stats.Statistics { return &stats.Statistics{} }

// Close does nothing: queries are closed as soon as they have answered.
func (q *metricsQuery) Close() {}

// Exec implements query.
func (q *metricsQuery) Exec(ctx context.Context) *promql.Result {
	rows, err := q.program.Evaluate(ctx, q, q.steps)
	if err != nil {
		return &promql.Result{Err: err}
	}
	result, _ := q.run(ctx, q.program.Text, rows)
	q.notes.Merge(result.Warnings)
	result.Warnings = q.notes
	return result
}

// run evaluates PromQL, in which placeholders stand for rows.
func (q *metricsQuery) run(ctx context.Context, text string, rows [][]metricsql.Row) (result *promql.Result, scalar bool) {
	expr, err := q.handler.parse(q.exchange, text)
	if err != nil {
		return &promql.Result{Err: err}, false
	}
	of := question{expr: expr, lookback: q.lookback, span: q.span}
	if of.subquerySteps, err = q.handler.takeSubqueries(q.exchange, text, expr, q.span); err != nil {
		return &promql.Result{Err: err}, false
	}
	if of.computed, err = q.place(expr, rows); err != nil {
		return &promql.Result{Err: err}, false
	}
	scalar = expr.Type() == parser.ValueTypeScalar
	asked, err := q.handler.newQuery(q.exchange, of)
	if err != nil {
		return &promql.Result{Err: invalidQuery(err)}, false
	}
	defer asked.Close()
	return asked.Exec(ctx), scalar
}

// place has the placeholders of an expression stand for rows.
func (q *metricsQuery) place(expr parser.Expr, rows [][]metricsql.Row) (all []*computed, err error) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok || len(v.LabelMatchers) != 1 || v.LabelMatchers[0].Name != metricsql.PlaceholderLabel || err != nil {
			return err
		}
		number, failed := strconv.Atoi(v.LabelMatchers[0].Value)
		if failed != nil || number >= len(rows) {
			err = fmt.Errorf("BUG: nothing was computed for %s", v)
			return err
		}
		c := &computed{mark: v.LabelMatchers[0]}
		c.runs, err = q.columns(rows[number])
		all = append(all, c)
		return err
	})
	return all, err
}

// columns returns rows as series, each step without a value behind one with a value being a staleness marker.
func (q *metricsQuery) columns(rows []metricsql.Row) ([][]column, error) {
	run := make([]column, len(rows))
	for i, row := range rows {
		if err := q.Take(columnBytes + 16*int64(len(row.Values))); err != nil {
			return nil, err
		}
		c := column{labels: row.Metric}
		present := false
		for j, v := range row.Values {
			is := v == v
			switch {
			case is:
				c.values = append(c.values, v)
			case present:
				c.values = append(c.values, staleMarker())
			default:
				continue
			}
			c.times = append(c.times, q.steps.FirstMs+int64(j)*q.steps.StepMs)
			present = is
		}
		run[i] = c
	}
	return [][]column{run}, nil
}

// Rows implements metricsql.Engine.
func (q *metricsQuery) Rows(ctx context.Context, text string, rows [][]metricsql.Row) (list []metricsql.Row, scalar bool, err error) {
	result, scalar := q.run(ctx, text, rows)
	if result.Err != nil {
		return nil, false, result.Err
	}
	q.notes.Merge(result.Warnings)
	count := q.steps.Count()
	newRow := func(metric labels.Labels) ([]float64, error) {
		list = append(list, metricsql.Row{Metric: metric, Values: make([]float64, count)})
		values := list[len(list)-1].Values
		for i := range values {
			values[i] = noValue()
		}
		return values, q.Take(columnBytes + 8*int64(count))
	}
	switch v := result.Value.(type) {
	case promql.Scalar:
		values, err := newRow(labels.EmptyLabels())
		if err != nil {
			return nil, false, err
		}
		values[0] = v.V
	case promql.Vector:
		for _, sample := range v {
			values, err := newRow(sample.Metric)
			if err != nil {
				return nil, false, err
			}
			values[0] = sample.F
		}
	case promql.Matrix:
		for _, series := range v {
			values, err := newRow(series.Metric)
			if err != nil {
				return nil, false, err
			}
			for _, p := range series.Floats {
				if i := (p.T - q.steps.FirstMs) / q.steps.StepMs; i >= 0 && i < int64(count) {
					values[i] = p.F
				}
			}
		}
	default:
		return nil, false, badData(fmt.Errorf("%s is no vector of values", text))
	}
	slices.SortFunc(list, func(a, b metricsql.Row) int { return labels.Compare(a.Metric, b.Metric) })
	return list, scalar, nil
}

// Samples implements metricsql.Engine.
func (q *metricsQuery) Samples(ctx context.Context, selector string, fromMs, toMs int64) ([]metricsql.Samples, error) {
	expr, err := q.handler.parse(q.exchange, selector)
	if err != nil {
		return nil, err
	}
	vector, ok := expr.(*parser.VectorSelector)
	if !ok {
		return nil, fmt.Errorf("BUG: %s is no selector", selector)
	}
	source := &queryable{source: q.exchange.reader.Source, database: q.exchange.database, parallel: q.handler.options.Parallel, deduplicateMs: q.handler.deduplicateMs(), rawFrom: q.handler.options.RawFrom}
	runs, notes, err := (&querier{queryable: source, fromMs: fromMs, toMs: toMs}).read(ctx, nil, vector.LabelMatchers)
	if err != nil {
		return nil, expanding(err)
	}
	q.notes.Merge(notes)
	var list []metricsql.Samples
	for _, run := range runs {
		for i := range run {
			list = append(list, fresh(&run[i]))
		}
	}
	slices.SortFunc(list, func(a, b metricsql.Samples) int { return labels.Compare(a.Metric, b.Metric) })
	return list, q.Take(columnBytes * int64(len(list)))
}

// fresh returns a column without its staleness markers.
func fresh(c *column) metricsql.Samples {
	s := metricsql.Samples{Metric: c.labels, Times: c.times, Values: c.values[:len(c.times)]}
	if !slices.ContainsFunc(s.Values, steps.IsStale) {
		return s
	}
	s.Times, s.Values = make([]int64, 0, len(c.times)), make([]float64, 0, len(c.times))
	for i, v := range c.values[:len(c.times)] {
		if !steps.IsStale(v) {
			s.Times, s.Values = append(s.Times, c.times[i]), append(s.Values, v)
		}
	}
	return s
}

// Take implements metricsql.Engine.
func (q *metricsQuery) Take(bytes int64) error { return q.exchange.entry.Take(bytes) }

func noValue() float64 { return math.NaN() }

func staleMarker() float64 { return math.Float64frombits(scan.StaleBits) }
