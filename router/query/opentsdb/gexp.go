package opentsdb

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// graphExpressions serves /api/query/gexp: functions in the manner of Graphite over
// sub-queries, answered as /api/query answers.
func (h *handler) graphExpressions(a *answer, c *call) error {
	q, calls, err := h.parseGraph(c)
	if err != nil {
		return err
	}
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	started := time.Now()
	r := &graphRun{handler: h, ctx: c.Context(), source: x, query: q, read: make([][]line, len(q.subs))}
	results := make([][]line, len(calls))
	for i, call := range calls {
		if results[i], err = r.evaluate(call); err != nil {
			return err
		}
	}
	h.tellMissing(a, x)
	scanned := time.Now()
	out := &pointWriter{answer: a, q: q, pointsMax: h.limits.PointsMax}
	a.buf = append(a.buf, '[')
	for _, lines := range results {
		for i := range lines {
			if err := errors.Join(r.ctx.Err(), writeLine(out, &lines[i])); err != nil {
				return err
			}
		}
	}
	if q.showSummary {
		out.separate()
		a.buf = appendSummary(a.buf, r.samples, out.points, scanned.Sub(started), time.Since(scanned))
	}
	a.buf = append(a.buf, ']')
	h.metrics.points.Add(float64(out.points))
	return nil
}

// writeLine writes the points of a line that are in the range asked for.
func writeLine(out *pointWriter, l *line) error {
	out.start(l.sub)
	out.open = false
	for i, t := range l.times {
		if t < out.q.fromMs || t > out.q.toMs {
			continue
		}
		if err := out.point(&l.group, t, l.values[i]); err != nil {
			return err
		}
	}
	return out.end()
}

// parseGraph reads the parameters of /api/query/gexp: those of /api/query, whose own
// sub-queries are checked and not answered, as in OpenTSDB, and exp.
func (h *handler) parseGraph(c *call) (*dataQuery, []*graphCall, error) {
	q, err := parseFlags(c.parameters)
	if err != nil {
		return nil, nil, err
	}
	if _, err := parseSubs(c.parameters); err != nil {
		return nil, nil, err
	}
	p := &graphParser{subsMax: h.limits.SubQueriesMax}
	var calls []*graphCall
	for _, text := range c.parameters["exp"] {
		if p.subsMax > 0 && int64(len(calls)) == p.subsMax {
			return nil, nil, invalid("There are more than %d expressions", p.subsMax)
		}
		call, err := p.call(strings.TrimSpace(text), 0)
		if err != nil {
			return nil, nil, err
		}
		calls = append(calls, call)
	}
	if len(calls) == 0 {
		return nil, nil, missing("exp")
	}
	q.subs, q.notANumber = p.subs, h.notANumberOf(c)
	return q, calls, q.settleParameters(c.parameters, c.database, h.clock(), h.limits.SubQueriesMax)
}

// graphRun is the evaluation of one request.
type graphRun struct {
	*handler
	ctx     context.Context
	source  *reader
	query   *dataQuery
	read    [][]line // by sub-query; nil: not read yet
	samples int64
}

// evaluate computes a call. Lines that it gives may share points with others.
func (r *graphRun) evaluate(c *graphCall) ([]line, error) {
	inputs := make([][]line, len(c.inputs))
	for i, input := range c.inputs {
		var err error
		if input.call != nil {
			inputs[i], err = r.evaluate(input.call)
		} else {
			inputs[i], err = r.lines(input.sub)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.function.join != "" {
		return r.join(c.function.join, inputs)
	}
	step, err := c.function.prepare(c.parameters)
	if err != nil {
		return nil, err
	}
	var lines []line
	points := 0
	for _, input := range inputs {
		lines = append(lines, input...)
		for i := range input {
			points += len(input[i].times)
		}
	}
	entry, working := ledger.Of(r.ctx), int64(16*points) // a moving average keeps its window twice
	if err := entry.Take(int64(8*points+2*lineBytes*len(lines)) + working); err != nil {
		return nil, err
	}
	defer entry.Give(working)
	return step(lines), r.ctx.Err()
}

// lines reads a sub-query, once.
func (r *graphRun) lines(at int) ([]line, error) {
	if r.read[at] != nil {
		return r.read[at], nil
	}
	sub := &r.query.subs[at]
	f, err := r.run(r.ctx, r.source, r.query, sub)
	if err != nil {
		return nil, err
	}
	if len(f.columns) == 0 {
		if err := r.checkMetric(r.ctx, r.source, sub); err != nil {
			return nil, err
		}
	}
	r.samples += f.samples
	lines, err := r.handler.lines(r.ctx, sub, f)
	if err != nil {
		return nil, err
	}
	if lines == nil {
		lines = []line{}
	}
	r.read[at] = lines
	return lines, nil
}

// join combines the lines of its inputs that have the same tags, by time; what is missing
// is 0 (DiffSeries.java and its like). The first input gives the name.
func (r *graphRun) join(operator string, inputs [][]line) ([]line, error) {
	names := make([]string, len(inputs))
	tables := make([]*table, len(inputs))
	for i := range inputs {
		names[i] = string(rune('a' + i))
		tables[i] = &table{lines: inputs[i]}
	}
	f, err := parseFormula(strings.Join(names, " "+operator+" "))
	if err != nil {
		return nil, err
	}
	return f.evaluate(r.ctx, tables, joinRule{})
}
