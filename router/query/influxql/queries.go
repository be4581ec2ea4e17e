package influxql

import (
	"fmt"
	"slices"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// showQueries answers the queries of all dialects that are running on databases that the
// caller administers.
func (x *execution) showQueries(out answer.Sink) error {
	who := access.Of(x.Ctx)
	var rows [][]answer.Value
	for _, r := range x.shell.Admission.Running() {
		if !mayAll(who, &r, access.Admin) {
			continue
		}
		rows = append(rows, []answer.Value{
			answer.Integer(float64(r.ID)), answer.String(r.Text), answer.String(access.Display(r.Database)),
			answer.String(r.Took.Round(time.Microsecond).String()), answer.String("running"),
		})
	}
	return listAll(out, &answer.Head{Columns: []string{"qid", "query", "database", "duration", "status"}}, rows)
}

func (x *execution) killQuery(s *ql.KillQueryStatement) error {
	who := access.Of(x.Ctx)
	running := x.shell.Admission.Running()
	at := slices.IndexFunc(running, func(r admission.Report) bool { return r.ID == s.QueryID && mayAll(who, &r, access.Admin) })
	if at < 0 || !x.shell.Admission.Cancel(s.QueryID) {
		return fmt.Errorf("no such query id: %d", s.QueryID)
	}
	return nil
}

// mayAll reports whether somebody has a right on all databases of a query.
func mayAll(who access.Principal, r *admission.Report, right access.Right) bool {
	return r.All(func(database string) bool { return who.May(database, right) })
}
