package influxql

import (
	"errors"
	"fmt"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// change runs a statement that makes or deletes something.
func (x *execution) change(statement ql.Statement) error {
	switch s := statement.(type) {
	case *ql.CreateDatabaseStatement:
		return x.createDatabase(s)
	case *ql.DropDatabaseStatement:
		name := x.on(s.Name)
		if name == "" {
			return errors.New("the default database cannot be dropped: drop its measurements")
		}
		return x.dropDatabase(x.Ctx, name)
	case *ql.DropMeasurementStatement:
		return x.remove(scan.Selector{Database: x.database, Metric: s.Name}, scan.TimeMsMin, scan.TimeMsMax)
	case *ql.DropSeriesStatement:
		if ql.HasTimeExpr(s.Condition) {
			return errors.New("DROP SERIES doesn't support time in WHERE clause")
		}
		return x.removeSeries(s.Sources, s.Condition)
	case *ql.DeleteSeriesStatement:
		return x.removeSeries(s.Sources, s.Condition)
	}
	return fmt.Errorf("not supported: %s", statement)
}

// createDatabase makes a database. Clauses that ask for another retention than what holds for its
// name are refused, rather than not kept to.
func (x *execution) createDatabase(s *ql.CreateDatabaseStatement) error {
	if s.Name == "" {
		return errors.New("invalid name")
	}
	if s.RetentionPolicyCreate {
		wanted := &policy{s.RetentionPolicyDuration, s.RetentionPolicyReplication, s.RetentionPolicyShardGroupDuration, orZero(s.PastWriteLimit), orZero(s.FutureWriteLimit)}
		if err := x.isKept(x.on(s.Name), wanted); err != nil {
			return err
		}
	}
	name := x.on(s.Name)
	if name == "" {
		return nil // the default one is always there
	}
	return x.databases.Create(x.Ctx, name)
}

var errNoDeleter = errors.New("deleting is not offered here")

// remove hides samples.
func (x *execution) remove(selector scan.Selector, fromMs, toMs int64) error {
	if x.deleter == nil {
		return errNoDeleter
	}
	_, err := x.deleter.Delete(x.Ctx, &selector, fromMs, toMs)
	return err
}

// removedSeriesMax bounds the series that are deleted one by one, where the index cannot
// decide a condition.
const removedSeriesMax = 100_000

// removeSeries deletes the samples of the series of FROM that WHERE wants, within its time.
func (x *execution) removeSeries(sources ql.Sources, where ql.Expr) error {
	condition, times, err := ql.ConditionExpr(where, &ql.NowValuer{Now: x.now})
	if err != nil {
		return err
	}
	from, to := int64(scan.TimeMsMin), int64(scan.TimeMsMax)
	if low, high := load.MsRange(times.MinTimeNano(), times.MaxTimeNano()); !times.Min.IsZero() || !times.Max.IsZero() {
		if !times.Min.IsZero() {
			from = low
		}
		if !times.Max.IsZero() {
			to = high
		}
	}
	database := x.database
	for _, source := range sources {
		if m, ok := source.(*ql.Measurement); ok && m.Database != "" {
			return errors.New("database not supported in FROM of a statement that deletes: use the parameter db")
		}
	}
	names, err := x.measurementNames(database, sources)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := x.removeFrom(database, name, condition, from, to); err != nil {
			return err
		}
	}
	return nil
}

// removeFrom deletes from one measurement.
func (x *execution) removeFrom(database, name string, where ql.Expr, fromMs, toMs int64) error {
	m, err := x.ReadMeasurement(database, name, scan.TimeMsMin, scan.TimeMsMax)
	if err != nil {
		return err
	}
	for _, ref := range ql.ExprNames(where) {
		if m.HasField(ref.Val) && !m.HasTag(ref.Val) {
			return errors.New("fields not supported in WHERE clause during deletion")
		}
	}
	c, err := x.newCatalogue(database, where)
	if err != nil {
		return err
	}
	if c.decide == nil {
		return x.remove(scan.Selector{Database: database, Metric: name, Matchers: c.condition.Matchers}, fromMs, toMs)
	}
	var all []scan.Selector
	err = c.walk(name, func(_ string, parts []series.Tag) error {
		if len(all) == removedSeriesMax {
			return fmt.Errorf("more than %d series: use a condition of comparisons of tags with constants, joined by AND", removedSeriesMax)
		}
		selector := scan.Selector{Database: database, Metric: name, Exact: true}
		for _, t := range parts {
			selector.Matchers = append(selector.Matchers, scan.Matcher{Name: string(t.Name), Kind: scan.MatchEqual, Values: []string{string(t.Value)}})
		}
		all = append(all, selector)
		return nil
	})
	if err != nil {
		return err
	}
	for _, selector := range all {
		if err := x.remove(selector, fromMs, toMs); err != nil {
			return err
		}
	}
	return nil
}
