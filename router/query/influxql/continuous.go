package influxql

import (
	"context"
	"errors"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/compile"
)

var errNoContinuous = errors.New("continuous queries are not offered here")

// changeContinuous makes or drops a continuous query.
func (x *execution) changeContinuous(statement ql.Statement) (err error) {
	if x.queries == nil || x.writer == nil {
		return errNoContinuous
	}
	did := audit.Deed{Do: "create continuous query"}
	switch s := statement.(type) {
	case *ql.CreateContinuousQueryStatement:
		database := x.on(s.Database)
		if err := x.checkDatabase(database); err != nil {
			return err
		}
		did.Database = access.Display(database)
		s.Database = did.Database
		if err = checkSystemNames(s.Source); err == nil { // else it would fail whenever it runs
			_, err = compile.Compile(s.Source, x.now, x.limits.DepthMax)
		}
		if err == nil {
			err = x.queries.Create(x.Ctx, s, x.now)
		}
	case *ql.DropContinuousQueryStatement:
		did.Do, did.Database = "drop continuous query", access.Display(x.on(s.Database))
		err = x.queries.Drop(x.Ctx, x.on(s.Database), s.Name)
	}
	audit.Of(x.Ctx).Did(did, err)
	return err
}

// continuousNeeds returns what making a continuous query needs. A query goes on with nobody's rights, so that one which reads or
// writes another database than its own is for those who may do everything.
func continuousNeeds(s *ql.CreateContinuousQueryStatement, on func(string, access.Right) []need) []need {
	needs := on(s.Database, access.Admin)
	for _, n := range otherNeeds(s.Source) {
		if n.database != needs[0].database {
			return []need{{access.Everything, access.Admin}}
		}
	}
	return needs
}

// otherNeeds returns what a SELECT needs of databases that it names.
func otherNeeds(s *ql.SelectStatement) []need {
	return selectNeeds(s, func(name string, right access.Right) []need {
		if name == "" {
			return nil
		}
		return []need{{access.Canonical(name), right}}
	})
}

func (x *execution) showContinuousQueries(out answer.Sink) error {
	names, err := x.readable()
	if err != nil {
		return err
	}
	var of map[string][]*continuous.Query
	if x.queries != nil {
		of = x.queries.ByDatabase()
	}
	for _, name := range names {
		var rows [][]answer.Value
		for _, q := range of[access.Canonical(name)] {
			rows = append(rows, []answer.Value{answer.String(q.Name), answer.String(q.Text)})
		}
		if err := listAll(out, &answer.Head{Name: name, Columns: []string{"name", "query"}}, rows); err != nil {
			return err
		}
	}
	return nil
}

// dropDatabase drops a database. Its continuous queries go first, or they would write into it again.
func (h *handler) dropDatabase(ctx context.Context, name string) error {
	if h.queries != nil {
		if err := h.queries.DropOf(ctx, name); err != nil {
			return err
		}
	}
	return h.databases.Drop(ctx, name)
}

// SelectInto implements continuous.Runner.
func (a *API) SelectInto(ctx context.Context, database string, s *ql.SelectStatement) (written int64, err error) {
	h := a.handler
	var others []string
	for _, n := range otherNeeds(s) {
		if n.database != database {
			others = append(others, n.database)
		}
	}
	err = h.shell.Run(ctx, admission.Query{Database: database, Others: others, Text: "continuous query: " + s.String()}, func(ctx context.Context, entry *admission.Entry) error {
		written, err = h.newExecution(ctx, entry, h.shell.Reader(scan.Consistency{}), &request{database: database}).insert(s)
		return explain(ctx, err)
	})
	return written, err
}

// Kept implements continuous.Runner. Rules that metrics have of their own are not looked at.
func (a *API) Kept(database string) time.Duration {
	if a.handler.retention == nil {
		return 0
	}
	kept, _ := a.handler.retention(database)
	return kept
}
