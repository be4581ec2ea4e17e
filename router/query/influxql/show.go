package influxql

import (
	"errors"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// showOf returns what answers a statement that shows something; nil: it is none of these.
func (x *execution) showOf(statement ql.Statement) func(answer.Sink) error {
	switch s := statement.(type) {
	case *ql.ShowDatabasesStatement:
		return x.showDatabases
	case *ql.ShowMeasurementsStatement:
		return func(out answer.Sink) error { return x.showMeasurements(s, out) }
	case *ql.ShowRetentionPoliciesStatement:
		return func(out answer.Sink) error { return x.showPolicies(s, out) }
	case *ql.ShowTagKeysStatement:
		return func(out answer.Sink) error { return x.showTagKeys(s, out) }
	case *ql.ShowTagValuesStatement:
		return func(out answer.Sink) error { return x.showTagValues(s, out) }
	case *ql.ShowFieldKeysStatement:
		return func(out answer.Sink) error { return x.showFieldKeys(s, out) }
	case *ql.ShowSeriesStatement:
		return func(out answer.Sink) error { return x.showSeries(s, out) }
	case *ql.ShowContinuousQueriesStatement:
		return x.showContinuousQueries
	case *ql.ShowQueriesStatement:
		return x.showQueries
	case *ql.ShowDiagnosticsStatement:
		return func(out answer.Sink) error { return x.showDiagnostics(s, out) }
	case *ql.ShowStatsStatement:
		return func(out answer.Sink) error { return x.showStats(s, out) }
	case *ql.ShowShardsStatement:
		return x.showShards
	case *ql.ShowShardGroupsStatement:
		return x.showShardGroups
	case *ql.KillQueryStatement:
		return func(answer.Sink) error { return x.killQuery(s) }
	}
	c, ok := cardinalityOf(statement)
	if !ok {
		return nil
	}
	return func(out answer.Sink) error { return x.showCardinality(c, out) }
}

// readable returns the names of the databases that the caller may read, the default one too.
func (x *execution) readable() ([]string, error) {
	names, err := x.databases.List(x.Ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, "") {
		names = append([]string{""}, names...)
	}
	who := access.Of(x.Ctx)
	var all []string
	for _, name := range names {
		if who.May(name, access.Read) {
			all = append(all, access.Display(name))
		}
	}
	slices.Sort(all)
	return all, nil
}

func (x *execution) showDatabases(out answer.Sink) error {
	names, err := x.readable()
	if err != nil {
		return err
	}
	return listAll(out, &answer.Head{Name: "databases", Columns: []string{"name"}}, textRows(names))
}

func (x *execution) showPolicies(s *ql.ShowRetentionPoliciesStatement, out answer.Sink) error {
	database := x.on(s.Database)
	if err := x.checkDatabase(database); err != nil {
		return err
	}
	kept, _ := x.keptFor(database)
	row := []answer.Value{answer.String(policyName), answer.String(kept.String()), answer.String("168h0m0s"), answer.Integer(1), answer.Boolean(true)}
	return listAll(out, &answer.Head{Columns: []string{"name", "duration", "shardGroupDuration", "replicaN", "default"}}, [][]answer.Value{row})
}

func (x *execution) showMeasurements(s *ql.ShowMeasurementsStatement, out answer.Sink) error {
	if s.WildcardDatabase || s.WildcardRetentionPolicy {
		return errors.New("not supported: SHOW MEASUREMENTS ON *: name one database")
	}
	if ql.HasTimeExpr(s.Condition) {
		return errors.New("SHOW MEASUREMENTS doesn't support time in WHERE clause")
	}
	var sources ql.Sources
	if s.Source != nil {
		sources = ql.Sources{s.Source}
	}
	names, err := x.matchingMeasurements(x.on(s.Database), sources, s.Condition)
	if err != nil {
		return err
	}
	return list(out, &answer.Head{Name: "measurements", Columns: []string{"name"}}, textRows(names), s.Offset, s.Limit)
}

func (x *execution) showFieldKeys(s *ql.ShowFieldKeysStatement, out answer.Sink) error {
	database := x.on(s.Database)
	names, err := x.measurementNames(database, s.Sources)
	if err != nil {
		return err
	}
	for _, name := range names {
		m, err := x.ReadMeasurement(database, name, scan.TimeMsMin, scan.TimeMsMax)
		if err != nil {
			return err
		}
		rows := make([][]answer.Value, len(m.Fields))
		for i, field := range m.Fields {
			rows[i] = []answer.Value{answer.String(field), answer.String("float")}
		}
		if err := list(out, &answer.Head{Name: name, Columns: []string{"fieldKey", "fieldType"}}, rows, s.Offset, s.Limit); err != nil {
			return err
		}
	}
	return nil
}
