package influxql

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/dryrun"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// dropped is where the rows of a dry run go.
type dropped struct{}

func (dropped) Series(*answer.Head) error       { return nil }
func (dropped) Row(int64, []answer.Value) error { return nil }

// plan returns what a SELECT would read, and reads no samples.
func (x *execution) plan(s *ql.SelectStatement) (*dryrun.Plan, error) {
	if err := checkSystemNames(s); err != nil {
		return nil, err
	}
	recorder := dryrun.NewRecorder(x.Source)
	planned := *x
	planned.Source = recorder
	if err := planned.selectRows(withoutTarget(s), dropped{}); err != nil {
		return nil, err
	}
	about := dryrun.Query{Dialect: dialect, Text: s.String()}
	for _, need := range needsOf(s, x.database) {
		if name := access.Display(need.database); !slices.Contains(about.Databases, name) {
			about.Databases = append(about.Databases, name)
		}
	}
	return recorder.Plan(x.Ctx, about, x.Entry.Limits())
}

// explainRows answers EXPLAIN with a line of text for each row, as InfluxDB does.
func (x *execution) explainRows(s *ql.ExplainStatement, out answer.Sink) error {
	if s.Analyze {
		return errors.New("EXPLAIN ANALYZE is not supported: EXPLAIN tells what a query would read; run the query to see how long it takes")
	}
	plan, err := x.plan(s.Statement)
	if err != nil {
		return err
	}
	return listAll(out, &answer.Head{Columns: []string{"QUERY PLAN"}}, textRows(plan.Lines()))
}

var errExplained = errors.New("explain=true is for SELECT")

// explainAll answers a request with the plans of its statements, as far as the first that has none.
func (h *handler) explainAll(ctx context.Context, entry *admission.Entry, w http.ResponseWriter, q *request) error {
	type result struct {
		ID   int          `json:"statement_id"`
		Plan *dryrun.Plan `json:"plan,omitempty"`
		Err  string       `json:"error,omitempty"`
	}
	answered := struct {
		Results []result `json:"results"`
	}{}
	reader := h.shell.Reader(q.consistency)
	x := h.newExecution(ctx, entry, reader, q)
	var failed error
	for i, statement := range q.statements {
		r, err := result{ID: i}, errNotExecuted
		if failed == nil {
			if r.Plan, err = x.planOf(statement); err != nil {
				err = explain(ctx, err)
				failed = err
			}
		}
		if err != nil {
			r.Err = err.Error()
		}
		answered.Results = append(answered.Results, r)
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(&missingTeller{ResponseWriter: w, reader: reader})
	if q.form.Pretty {
		out.SetIndent("", "    ")
	}
	return errors.Join(failed, out.Encode(answered))
}

// planOf returns the plan of a statement that reads samples. Errors: errExplained of others.
func (x *execution) planOf(statement ql.Statement) (*dryrun.Plan, error) {
	switch s := statement.(type) {
	case *ql.SelectStatement:
		return x.plan(s)
	case *ql.ExplainStatement:
		return x.plan(s.Statement)
	}
	return nil, errExplained
}
