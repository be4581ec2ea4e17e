package promql

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/tickmesh/tickmesh/router/query/decimal"
	"github.com/tickmesh/tickmesh/router/query/dryrun"
)

// pointsMax is how many steps a range query may have, as in Prometheus.
const pointsMax = 11000

// truncatedText is Prometheus' warning where a limit has cut an answer.
const truncatedText = "results truncated due to limit"

// statsAll asks for statistics of each step too.
const statsAll = "all"

// query serves /api/v1/query.
func (h *handler) query(x *exchange) error {
	at, err := timeParameter(x.form, "time", h.shell.Clock())
	if err != nil {
		return err
	}
	return h.evaluate(x, span{start: at, end: at})
}

// queryRange serves /api/v1/query_range.
func (h *handler) queryRange(x *exchange) error {
	form := x.form
	if h.options.MetricsQL {
		form = rangeDefaults(form, h.shell.Clock())
	}
	s, err := spanOf(form)
	if err != nil {
		return err
	}
	return h.evaluate(x, s)
}

// rangeDefault is the step of a range query that names none, and the length of its range, in VictoriaMetrics.
const rangeDefault = 5 * time.Minute

// rangeDefaults returns the parameters of a range query with those that VictoriaMetrics adds.
func rangeDefaults(form url.Values, now time.Time) url.Values {
	all := maps.Clone(form)
	for name, value := range map[string]string{
		"start": now.Add(-rangeDefault).Format(time.RFC3339Nano), "end": now.Format(time.RFC3339Nano), "step": rangeDefault.String(),
	} {
		if all.Get(name) == "" {
			all.Set(name, value)
		}
	}
	return all
}

// spanOf reads the span of a range query.
func spanOf(form url.Values) (s span, err error) {
	if s.start, err = parseTime(form.Get("start")); err != nil {
		return s, invalidParameter(err, "start")
	}
	if s.end, err = parseTime(form.Get("end")); err != nil {
		return s, invalidParameter(err, "end")
	}
	if s.end.Before(s.start) {
		return s, invalidParameter(errors.New("end timestamp must not be before start time"), "end")
	}
	if s.step, err = parseDuration(form.Get("step")); err != nil {
		return s, invalidParameter(err, "step")
	}
	if s.step <= 0 {
		return s, invalidParameter(errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"), "step")
	}
	if s.step < time.Millisecond {
		return s, invalidParameter(errors.New("a step is at least a millisecond"), "step")
	}
	if s.stepsMore() > pointsMax {
		return s, badData(errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"))
	}
	return s, nil
}

// evaluate runs an expression and writes its result.
func (h *handler) evaluate(x *exchange, s span) error {
	limit, err := limitParameter(x.form)
	if err != nil {
		return err
	}
	lookback := h.options.LookbackDelta
	if text := x.form.Get("lookback_delta"); text != "" {
		asked, err := parseDuration(text)
		if err != nil {
			return badData(fmt.Errorf("error parsing lookback delta duration: %w", err))
		}
		if asked > 0 {
			lookback = asked
		}
	}
	text, wanted := x.form.Get("query"), x.form.Get("stats")
	var dry *dryrun.Recorder
	if x.form.Get("explain") == "true" {
		dry = x.record()
	}
	q, err := h.prepare(x, wanted, lookback, s)
	if err != nil {
		return err
	}
	defer q.Close()
	result := q.Exec(x.ctx)
	if result.Err != nil {
		return result.Err
	}
	if dry != nil {
		return h.writePlan(x, dry, q)
	}
	warnings := result.Warnings
	if limit > 0 && truncate(result, limit) {
		warnings = warnings.Add(errors.New(truncatedText))
	}
	if wanted != "" && wanted != "true" && wanted != statsAll {
		warnings = warnings.Add(fmt.Errorf("value %q for parameter \"stats\" is deprecated and will be rejected in the next major release, use %q or %q", wanted, "true", statsAll))
	}
	var statistics stats.QueryStats
	if wanted != "" {
		statistics = stats.NewQueryStats(q.Stats())
	}
	return h.writeResult(x, result, statistics, warnings, text)
}

// prepare returns the query of the expression that a client sent.
func (h *handler) prepare(x *exchange, statistics string, lookback time.Duration, s span) (query, error) {
	text := x.form.Get("query")
	expr, err := h.parse(x, text)
	var syntax parser.ParseErrors
	switch {
	case h.options.MetricsQL && errors.As(err, &syntax):
		return h.newMetricsQuery(x, text, lookback, s, err)
	case err != nil:
		return nil, err
	}
	steps, err := h.takeSubqueries(x, text, expr, s)
	if err != nil {
		return nil, err
	}
	q, err := h.newQuery(x, question{expr: expr, statistics: statistics, lookback: lookback, span: s, subquerySteps: steps})
	if err != nil {
		return nil, invalidQuery(err)
	}
	return q, nil
}

// truncate cuts a result to limit series.
func truncate(result *promql.Result, limit int) bool {
	switch v := result.Value.(type) {
	case promql.Matrix:
		if len(v) > limit {
			result.Value = v[:limit]
			return true
		}
	case promql.Vector:
		if len(v) > limit {
			result.Value = v[:limit]
			return true
		}
	}
	return false
}

// writeResult writes the result of an expression.
func (h *handler) writeResult(x *exchange, result *promql.Result, statistics stats.QueryStats, notes annotations.Annotations, text string) error {
	warnings, infos := notes.AsStrings(text, 10, 10)
	warnings = append(warnings, h.tellMissing(x)...)
	e := x.out
	e.begin()
	e.buf = append(e.buf, `{"resultType":"`...)
	e.buf = append(append(e.buf, result.Value.Type()...), `","result":`...)
	e.result(result)
	if statistics != nil {
		e.buf = append(e.buf, `,"stats":`...)
		if err := e.append(statistics); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	e.end(warnings, infos)
	return nil
}

// result writes the value of an expression. There are no histograms: none can be stored,
// and no expression makes one of floats.
func (e *encoder) result(result *promql.Result) {
	switch v := result.Value.(type) {
	case promql.Vector:
		e.vector(v)
	case promql.Matrix:
		e.matrix(v)
	case promql.Scalar:
		e.buf = appendTime(append(e.buf, '['), v.T)
		e.buf = decimal.AppendPlain(append(e.buf, `,"`...), v.V)
		e.buf = append(e.buf, `"]`...)
	case promql.String:
		e.buf = append(appendTime(append(e.buf, '['), v.T), ',')
		e.text(v.V)
		e.buf = append(e.buf, ']')
	}
}

func (e *encoder) vector(v promql.Vector) {
	e.buf = append(e.buf, '[')
	for i := range v {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, `{"metric":`...)
		e.labels(v[i].Metric)
		e.buf = append(e.buf, `,"value":`...)
		e.point(v[i].T, v[i].F)
		e.buf = append(e.buf, '}')
		e.flushIfLong()
	}
	e.buf = append(e.buf, ']')
}

// floats writes points with commas between them.
func (e *encoder) floats(points []promql.FPoint) {
	for from := 0; from < len(points); from += pointsInFlush {
		b := e.buf // a variable costs less than a field
		for i, p := range points[from:min(from+pointsInFlush, len(points))] {
			if from+i > 0 {
				b = append(b, ',')
			}
			b = e.points.appendPoint(b, p.T, p.F)
		}
		e.buf = b
		e.flushIfLong()
	}
}

// pointsInFlush is how many points are written before somebody looks whether the text is
// long.
const pointsInFlush = 256

func (e *encoder) matrix(m promql.Matrix) {
	e.buf = append(e.buf, '[')
	for i := range m {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, `{"metric":`...)
		e.labels(m[i].Metric)
		if len(m[i].Floats) > 0 {
			e.buf = append(e.buf, `,"values":[`...)
			e.floats(m[i].Floats)
			e.buf = append(e.buf, ']')
		}
		e.buf = append(e.buf, '}')
		e.flushIfLong()
	}
	e.buf = append(e.buf, ']')
}
