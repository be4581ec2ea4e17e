package influxql

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// dispatch runs a statement.
func (x *execution) dispatch(statement ql.Statement, out answer.Sink) error {
	switch s := statement.(type) {
	case *ql.SelectStatement:
		if err := checkSystemNames(s); err != nil {
			return err
		}
		if s.Target != nil {
			return x.selectInto(s, out)
		}
		return x.selectRows(s, out)
	case *ql.ExplainStatement:
		return x.explainRows(s, out)
	case *ql.CreateDatabaseStatement, *ql.DropDatabaseStatement, *ql.DeleteSeriesStatement, *ql.DeleteStatement,
		*ql.DropSeriesStatement, *ql.DropMeasurementStatement:
		return x.change(statement)
	case *ql.CreateRetentionPolicyStatement, *ql.AlterRetentionPolicyStatement, *ql.DropRetentionPolicyStatement:
		return x.changePolicy(statement)
	case *ql.CreateContinuousQueryStatement, *ql.DropContinuousQueryStatement:
		return x.changeContinuous(statement)
	case *ql.CreateUserStatement, *ql.DropUserStatement, *ql.SetPasswordUserStatement, *ql.GrantStatement, *ql.GrantAdminStatement,
		*ql.RevokeStatement, *ql.RevokeAdminStatement, *ql.ShowUsersStatement, *ql.ShowGrantsForUserStatement:
		return fmt.Errorf("not supported: %s: users and their rights are set in a file when the server is started", commandOf(statement))
	}
	if show := x.showOf(statement); show != nil {
		return show(out)
	}
	return fmt.Errorf("not supported: %s", commandOf(statement))
}

// checkSystemNames refuses to read what InfluxDB's own statements are made of.
func checkSystemNames(s *ql.SelectStatement) error {
	for _, source := range s.Sources {
		m, ok := source.(*ql.Measurement)
		if !ok || !ql.IsSystemName(m.Name) {
			continue
		}
		command := "the appropriate meta command"
		switch m.Name {
		case "_fieldKeys":
			command = "SHOW FIELD KEYS"
		case "_measurements":
			command = "SHOW MEASUREMENTS"
		case "_series":
			command = "SHOW SERIES"
		case "_tagKeys":
			command = "SHOW TAG KEYS"
		case "_tags":
			command = "SHOW TAG VALUES"
		}
		return fmt.Errorf("unable to use system source '%s': use %s instead", m.Name, command)
	}
	return nil
}

// commandOf names a statement without what may be secret in it.
func commandOf(statement ql.Statement) string { return ql.Sanitize(statement.String()) }

// changes reports whether a statement changes something.
func changes(statement ql.Statement) bool {
	switch s := statement.(type) {
	case *ql.SelectStatement:
		return s.Target != nil
	case *ql.CreateDatabaseStatement, *ql.DropDatabaseStatement, *ql.DeleteSeriesStatement, *ql.DeleteStatement,
		*ql.DropSeriesStatement, *ql.DropMeasurementStatement, *ql.CreateContinuousQueryStatement, *ql.DropContinuousQueryStatement:
		return true
	}
	return false
}

// need is a right that a statement needs.
type need struct {
	database string // canonical
	right    access.Right
}

// needsOf returns what a statement needs, when it names no database that of the request.
func needsOf(statement ql.Statement, database string) []need {
	on := func(name string, right access.Right) []need {
		if name == "" {
			return []need{{database, right}}
		}
		return []need{{access.Canonical(name), right}}
	}
	switch s := statement.(type) {
	case *ql.SelectStatement:
		return selectNeeds(s, on)
	case *ql.ExplainStatement:
		return selectNeeds(s.Statement, on)
	case *ql.ShowDatabasesStatement: // shows those that may be read
		return nil
	case *ql.ShowDiagnosticsStatement, *ql.ShowStatsStatement, *ql.ShowShardsStatement, *ql.ShowShardGroupsStatement: // as in InfluxDB
		return []need{{access.Everything, access.Admin}}
	case *ql.CreateContinuousQueryStatement:
		return continuousNeeds(s, on)
	case *ql.DropContinuousQueryStatement:
		return on(s.Database, access.Admin)
	case *ql.CreateDatabaseStatement:
		return on(s.Name, access.Admin)
	case *ql.DropDatabaseStatement:
		return on(s.Name, access.Admin)
	case *ql.DeleteSeriesStatement:
		return append(on("", access.Admin), sourceNeeds(s.Sources, access.Admin)...)
	case *ql.DropSeriesStatement:
		return append(on("", access.Admin), sourceNeeds(s.Sources, access.Admin)...)
	case ql.HasDefaultDatabase:
		if changesOrSecret(statement) {
			return on(s.DefaultDatabase(), access.Admin)
		}
		return on(s.DefaultDatabase(), access.Read)
	}
	if changesOrSecret(statement) {
		return on("", access.Admin)
	}
	return on("", access.Read)
}

// errChangeByGet refuses changes by GET: browsers follow any link, with the password that they
// keep, so a link must not be enough to delete.
var errChangeByGet = &requestError{status: http.StatusMethodNotAllowed, message: "statements that change something want a POST request"}

// booked checks that the caller has what the statements need, and returns the databases that
// they stand for in admission control of queries. These are what the statements read or change, not
// what the request names: a caller neither uses up the limits of a database that he has no
// right on, nor gets round those of his own. What needs no database, and names one that the
// caller may not read, is of no single one. Errors: *access.DeniedError, errChangeByGet.
func booked(ctx context.Context, q *request) (database string, others []string, err error) {
	var all []string
	for _, statement := range q.statements {
		if q.readOnly && changes(statement) {
			return "", nil, errChangeByGet
		}
		for _, need := range needsOf(statement, q.database) {
			if err := access.Check(ctx, need.database, need.right); err != nil {
				return "", nil, err
			}
			if !slices.Contains(all, need.database) {
				all = append(all, need.database)
			}
		}
	}
	switch {
	case len(all) > 0:
		return all[0], all[1:], nil
	case access.Of(ctx).May(q.database, access.Read):
		return q.database, nil, nil
	}
	return access.Everything, nil, nil
}

func changesOrSecret(statement ql.Statement) bool {
	switch statement.(type) {
	case *ql.ShowUsersStatement, *ql.ShowGrantsForUserStatement, *ql.CreateRetentionPolicyStatement,
		*ql.AlterRetentionPolicyStatement, *ql.DropRetentionPolicyStatement:
		return true
	}
	return changes(statement)
}

// selectNeeds returns the databases that a SELECT reads, and that it writes.
func selectNeeds(s *ql.SelectStatement, on func(string, access.Right) []need) []need {
	var all []need
	if s.Target != nil {
		all = on(s.Target.Measurement.Database, access.Write)
	}
	for _, source := range s.Sources {
		switch source := source.(type) {
		case *ql.Measurement:
			all = append(all, on(source.Database, access.Read)...)
		case *ql.SubQuery:
			all = append(all, selectNeeds(source.Statement, on)...)
		}
	}
	return all
}

func sourceNeeds(sources ql.Sources, right access.Right) []need {
	var all []need
	for _, source := range sources {
		if m, ok := source.(*ql.Measurement); ok && m.Database != "" {
			all = append(all, need{access.Canonical(m.Database), right})
		}
	}
	return all
}

// execute runs one statement and writes its rows.
func (x *execution) execute(statement ql.Statement, out answer.Format) (end answer.Ending) {
	end.Err = x.dispatch(statement, &limitedSink{Format: out, x: x})
	if errors.Is(end.Err, errRowsEnough) {
		end.Err, end.Partial = nil, true
	}
	return end
}
