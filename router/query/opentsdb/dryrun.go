package opentsdb

import (
	"encoding/json"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/dryrun"
)

// explain answers with what the scans of all sub-queries would read, and reads no samples.
func (h *handler) explain(a *answer, c *call, x *reader, q *dataQuery) error {
	recorder := dryrun.NewRecorder(x.Source)
	x.Source = recorder
	for i := range q.subs {
		if _, err := h.run(c.Context(), x, q, &q.subs[i]); err != nil {
			return err
		}
	}
	plan, err := recorder.Plan(c.Context(), dryrun.Query{Dialect: dialect, Databases: []string{access.Display(c.database)}, Text: c.text()}, c.entry.Limits())
	if err != nil {
		return err
	}
	x.TellMissing(a.w.Header())
	text, err := json.Marshal(plan)
	a.buf = append(a.buf, text...)
	return err
}
