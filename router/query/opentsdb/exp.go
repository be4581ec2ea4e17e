package opentsdb

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/scan"
)

// expressions serves /api/query/exp: it reads the metrics that the outputs need, computes
// their expressions, and answers a row of numbers for each time (QueryExecutor).
func (h *handler) expressions(a *answer, c *call) error {
	body, err := c.content()
	if err != nil {
		return err
	}
	q, err := parseExp(body, c.database, h.clock(), h.limits.SubQueriesMax)
	if err != nil {
		return err
	}
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	r := &expRun{handler: h, ctx: c.Context(), source: x, query: q, tables: make([]*table, len(q.body.Metrics)+len(q.body.Expressions))}
	for _, o := range q.outputs() {
		if _, err := r.table(q.ids[string(o.ID)]); err != nil {
			return err
		}
	}
	h.tellMissing(a, x)
	asString := h.notANumberOf(c) == NotANumberString
	points := int64(0)
	a.buf = append(a.buf, `{"outputs":[`...)
	for i, o := range q.outputs() {
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		n, err := r.write(a, o, asString, h.limits.PointsMax-points)
		if err != nil {
			return err
		}
		points += n
	}
	a.buf = append(appendExp(append(a.buf, `],"query":`...), &q.body), '}')
	h.metrics.points.Add(float64(points))
	return nil
}

// expRun is the evaluation of one request.
type expRun struct {
	*handler
	ctx    context.Context
	source *reader
	query  *expQuery
	tables []*table // by place in expQuery.ids; nil: not needed yet
}

// table gives the results of a metric or an expression, computing what they need first.
// That ends, because parseExp has refused circles.
func (r *expRun) table(at int) (*table, error) {
	if t := r.tables[at]; t != nil {
		return t, nil
	}
	t, err := r.compute(at)
	r.tables[at] = t
	return t, err
}

func (r *expRun) compute(at int) (*table, error) {
	body := &r.query.body
	if at < len(body.Metrics) {
		return r.read(at)
	}
	e := &body.Expressions[at-len(body.Metrics)]
	t := &table{}
	t.fill = math.NaN()
	if e.FillPolicy != nil {
		t.fill = e.FillPolicy.value
	}
	tables := make([]*table, len(e.formula.variables))
	for i, name := range e.formula.variables {
		var err error
		if tables[i], err = r.table(r.query.ids[name]); err != nil {
			return nil, err
		}
		t.queried = unionOf(t.queried, tables[i].queried)
	}
	var err error
	t.lines, err = e.formula.evaluate(r.ctx, tables, e.Join.rule())
	return t, err
}

// rule gives what a join asks for; nil is the default, a union.
func (j *expJoin) rule() joinRule {
	if j == nil {
		return joinRule{aggregated: true}
	}
	return joinRule{
		intersection: strings.EqualFold(string(j.Operator), "intersection"), queryTags: bool(j.UseQueryTags),
		aggregated: j.IncludeAggTags == nil || bool(*j.IncludeAggTags),
	}
}

// read asks for a metric.
func (r *expRun) read(at int) (*table, error) {
	sub := &r.query.data.subs[at]
	f, err := r.run(r.ctx, r.source, &r.query.data, sub)
	if err != nil {
		return nil, err
	}
	if len(f.columns) == 0 {
		if err := r.checkMetric(r.ctx, r.source, sub); err != nil {
			return nil, err
		}
	}
	t := &table{fill: r.query.body.fillOf(at)}
	for _, f := range sub.filters {
		t.queried = unionOf(t.queried, []string{f.tag})
	}
	t.lines, err = r.lines(r.ctx, sub, f)
	return t, err
}

// fillOf gives what stands where a metric has no point: by its own policy, else by that
// of the downsampler, else 0.
func (b *expBody) fillOf(metric int) float64 {
	if fill := b.Metrics[metric].FillPolicy; fill != nil {
		return fill.value
	}
	if d := b.Time.Downsampler; d != nil && d.FillPolicy != nil {
		return d.FillPolicy.value
	}
	return 0
}

// write writes one output, and gives the number of its points.
func (r *expRun) write(a *answer, o expOutput, asString bool, pointsMax int64) (points int64, err error) {
	t := r.tables[r.query.ids[string(o.ID)]]
	a.buf = appendString(append(a.buf, `{"id":`...), o.ID)
	if o.Alias != "" {
		a.buf = appendString(appendField(a.buf, "alias"), o.Alias)
	}
	times, err := timesOf(r.ctx, t.lines)
	if err != nil {
		return 0, err
	}
	if points = int64(len(times)) * int64(len(t.lines)); points > pointsMax && r.limits.PointsMax > 0 {
		return 0, &scan.LimitError{What: "points", Limit: r.limits.PointsMax}
	}
	a.buf = append(appendField(a.buf, "dps"), '[')
	cursors := make([]int, len(t.lines))
	var value [1]float64
	for n, timeMs := range times {
		if n > 0 {
			a.buf = append(a.buf, ',')
		}
		a.buf = strconv.AppendInt(append(a.buf, '['), timeMs, 10)
		for i := range t.lines {
			cursors[i] = t.lines[i].valuesAt(times[n:n+1], cursors[i], t.fill, value[:])
			a.buf = appendFloat(append(a.buf, ','), value[0], asString)
		}
		a.buf = append(a.buf, ']')
		if err := errors.Join(r.ctx.Err(), a.flushIfLong()); err != nil {
			return 0, err
		}
	}
	a.buf = append(a.buf, ']')
	first, last := int64(0), int64(0)
	if len(times) > 0 {
		first, last = times[0], times[len(times)-1]
	}
	a.buf = append(appendField(a.buf, "dpsMeta"), '{')
	for _, field := range []struct {
		name  string
		value int64
	}{{"firstTimestamp", first}, {"lastTimestamp", last}, {"setCount", int64(len(times))}, {"series", int64(len(t.lines))}} {
		a.buf = strconv.AppendInt(appendField(a.buf, field.name), field.value, 10)
	}
	a.buf = append(a.buf, '}')
	if len(t.lines) > 0 {
		a.buf = appendMeta(a.buf, t.lines)
	}
	a.buf = append(a.buf, '}')
	return points, a.flushIfLong()
}

// appendMeta appends what the numbers of a row are, from the time on.
func appendMeta(dst []byte, lines []line) []byte {
	dst = append(dst, `,"meta":[{"index":0,"metrics":["timestamp"]}`...)
	for i := range lines {
		dst = strconv.AppendInt(append(dst, `,{"index":`...), int64(i+1), 10)
		dst = appendStrings(appendField(dst, "metrics"), lines[i].metrics)
		dst = appendTags(appendField(dst, "commonTags"), lines[i].tags)
		dst = append(appendStrings(appendField(dst, "aggregatedTags"), lines[i].aggregated), '}')
	}
	return append(dst, ']')
}

// appendExp appends the request as OpenTSDB shows it after the answer.
func appendExp(dst []byte, b *expBody) []byte {
	dst = appendStringOrNull(append(dst, `{"name":`...), string(b.Name))
	dst = append(appendField(dst, "time"), '{')
	dst = appendString(appendField(dst, "start"), b.Time.Start)
	dst = appendStringOrNull(appendField(dst, "end"), string(b.Time.End))
	dst = appendStringOrNull(appendField(dst, "timezone"), string(b.Time.Timezone))
	dst = appendField(dst, "downsampler")
	if d := b.Time.Downsampler; d == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(appendField(append(dst, '{'), "interval"), d.Interval)
		dst = appendString(appendField(dst, "aggregator"), d.Aggregator)
		dst = append(appendFill(dst, d.FillPolicy), '}')
	}
	dst = appendString(appendField(dst, "aggregator"), b.Time.Aggregator)
	dst = append(strconv.AppendBool(appendField(dst, "rate"), bool(b.Time.Rate)), '}')
	dst = appendList(dst, "filters", b.Filters, appendExpFilter)
	dst = appendList(dst, "metrics", b.Metrics, func(dst []byte, m expMetric) []byte {
		dst = appendString(appendField(dst, "id"), m.ID)
		dst = appendString(appendField(dst, "metric"), m.Metric)
		dst = appendStringOrNull(appendField(dst, "filter"), string(m.Filter))
		dst = appendStringOrNull(appendField(dst, "aggregator"), string(m.Aggregator))
		return append(appendField(appendFill(dst, m.FillPolicy), "timeOffset"), "null"...)
	})
	dst = appendList(dst, "expressions", b.Expressions, func(dst []byte, e expExpression) []byte {
		dst = appendString(appendField(dst, "id"), e.ID)
		dst = appendString(appendField(dst, "expr"), e.Expr)
		operator, rule := "union", e.Join.rule()
		if rule.intersection {
			operator = "intersection"
		}
		dst = appendString(append(appendField(dst, "join"), `{"operator":`...), operator)
		dst = strconv.AppendBool(appendField(dst, "useQueryTags"), rule.queryTags)
		dst = append(strconv.AppendBool(appendField(dst, "includeAggTags"), rule.aggregated), '}')
		return appendFill(dst, e.FillPolicy)
	})
	dst = appendList(dst, "outputs", b.Outputs, func(dst []byte, o expOutput) []byte {
		dst = appendString(appendField(dst, "id"), o.ID)
		return appendStringOrNull(appendField(dst, "alias"), string(o.Alias))
	})
	return append(dst, '}')
}

// appendList appends a list of objects, or null in place of an empty one.
func appendList[T any](dst []byte, name string, list []T, appendFields func([]byte, T) []byte) []byte {
	dst = appendField(dst, name)
	if len(list) == 0 {
		return append(dst, "null"...)
	}
	for i, element := range list {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		dst = append(appendFields(append(dst, separator, '{'), element), '}')
	}
	return append(dst, ']')
}

func appendExpFilter(dst []byte, f expFilter) []byte {
	dst = appendString(appendField(dst, "id"), f.ID)
	dst = appendList(dst, "tags", f.Tags, func(dst []byte, t filterBody) []byte {
		dst = appendString(appendField(dst, "tagk"), t.Tagk)
		dst = appendString(appendField(dst, "filter"), t.Filter)
		dst = strconv.AppendBool(appendField(dst, "group_by"), bool(t.GroupBy || t.GroupB2))
		return appendString(appendField(dst, "type"), t.Type)
	})
	return strconv.AppendBool(appendField(dst, "explicitTags"), bool(f.ExplicitTags))
}

func appendFill(dst []byte, f *expFill) []byte {
	dst = appendField(dst, "fillPolicy")
	if f == nil {
		return append(dst, "null"...)
	}
	dst = appendString(appendField(append(dst, '{'), "policy"), f.Policy)
	return append(appendFloat(appendField(dst, "value"), f.value, true), '}')
}
