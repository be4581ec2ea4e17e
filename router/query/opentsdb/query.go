package opentsdb

import (
	"context"
	"net/http"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// query serves /api/query: it reads the request, scans for all sub-queries,
// deletes if asked to, and only then starts to answer, so that what goes wrong
// in storage is still an error with its own status.
func (h *handler) query(a *answer, c *call) error {
	q, err := h.parseQuery(c)
	if err != nil {
		return err
	}
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	if q.delete && x.Consistency.Partial {
		return invalid("Data that is deleted is not read in part: use either delete or partial")
	}
	if q.explain {
		return h.explain(a, c, x, q)
	}
	started := time.Now()
	fetches := make([]*fetch, len(q.subs))
	samples := int64(0)
	for i := range q.subs {
		if fetches[i], err = h.run(c.Context(), x, q, &q.subs[i]); err != nil {
			return err
		}
		if len(fetches[i].columns) == 0 {
			for j := range q.subs[i].selectors {
				if err := x.checkNames(c.Context(), &q.subs[i].selectors[j], http.StatusBadRequest); err != nil {
					return err
				}
			}
		}
		samples += fetches[i].samples
	}
	if q.delete {
		if err := h.delete(c.Context(), q); err != nil {
			return err
		}
	}
	x.TellMissing(a.w.Header())
	scanned := time.Now()
	out := &pointWriter{answer: a, q: q, pointsMax: h.limits.PointsMax}
	a.buf = append(a.buf, '[')
	for i := range q.subs {
		if err := h.writeSub(c.Context(), out, &q.subs[i], fetches[i]); err != nil {
			return err
		}
		fetches[i] = nil // for the garbage collector
	}
	if q.showSummary {
		out.separate()
		a.buf = appendSummary(a.buf, samples, out.points, scanned.Sub(started), time.Since(scanned))
	}
	a.buf = append(a.buf, ']')
	h.points.Add(float64(out.points))
	return nil
}

// parseQuery reads and checks the request of /api/query.
func (h *handler) parseQuery(c *call) (*dataQuery, error) {
	parameters, database := c.parameters, c.database
	var q *dataQuery
	var err error
	if c.Method == http.MethodPost || len(c.body) > 0 {
		var body []byte
		if body, err = c.content(); err != nil {
			return nil, err
		}
		q, err = parseBody(body, database, h.shell.Clock(), h.limits.SubQueriesMax)
	} else {
		q, err = parseParameters(parameters, database, h.shell.Clock(), h.limits.SubQueriesMax)
	}
	if err != nil {
		return nil, err
	}
	q.arrays = q.arrays || flag(parameters, "arrays") // of a POST too
	if method(c.Request, parameters) == http.MethodDelete {
		q.delete = true
	}
	q.explain = q.explain || flag(parameters, "explain")
	if q.delete && q.explain {
		return nil, invalid("Nothing is deleted of what is explained: use either delete or explain")
	}
	if q.delete && h.deleter == nil {
		return nil, &apiError{status: http.StatusBadRequest, message: "Bad request",
			details: "Deleting data is not enabled (tsd.http.query.allow_delete=false)"}
	}
	if q.delete {
		if c.Method == http.MethodGet {
			return nil, &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
				details: "Data is deleted by DELETE or POST: browsers follow any link, with the password that they keep"}
		}
		if err := access.Check(c.Context(), database, access.Admin); err != nil {
			return nil, err
		}
	}
	q.nanAsText = c.parameters.Get("nan") == "string"
	return q, nil
}

// delete removes the samples of the range that was asked for.
func (h *handler) delete(ctx context.Context, q *dataQuery) error {
	for i := range q.subs {
		for s := range q.subs[i].selectors {
			if _, err := h.deleter.Delete(ctx, &q.subs[i].selectors[s], q.fromMs, q.toMs); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupsPaced is how many groups are written before others may have the processor.
const groupsPaced = 64

// writeSub merges and writes the results of one sub-query.
func (h *handler) writeSub(ctx context.Context, out *pointWriter, sub *subQuery, f *fetch) error {
	memory := &holding{entry: admission.Of(ctx)}
	defer memory.release()
	groups, err := groupColumns(f.columns, sub, memory)
	if err != nil {
		return err
	}
	out.start(sub)
	m := &merger{ctx: ctx, sub: sub, from: f.span.outFrom, to: f.span.outTo, entry: memory.entry}
	for i := range groups {
		out.begin(&groups[i])
		emit := func(timeMs int64, value float64) error { return out.point(&groups[i], timeMs, value) }
		if err := m.merge(groups[i].members, emit); err != nil {
			return err
		}
		if err := out.end(); err != nil {
			return err
		}
		if i%groupsPaced == 0 {
			processor.Of(ctx).Pace()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
