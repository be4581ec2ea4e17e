package influxql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/compile"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// knownDatabases are the databases of a source: one is there once it has a series.
type knownDatabases struct {
	source  scan.Source
	deleter scan.Deleter
}

// List implements Databases.
func (d knownDatabases) List(ctx context.Context) ([]string, error) { return d.source.Databases(ctx) }

// Create implements Databases.
func (knownDatabases) Create(context.Context, string) error { return nil }

// Drop implements Databases.
func (d knownDatabases) Drop(ctx context.Context, name string) error {
	if d.deleter == nil {
		return errNoDeleter
	}
	_, err := d.deleter.Delete(ctx, &scan.Selector{Database: name, MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax)
	return err
}

// checkDatabase returns an error when a database is not there.
func (x *execution) checkDatabase(database string) error {
	if database == "" {
		return nil
	}
	names, err := x.databases.List(x.Ctx)
	if err == nil && !slices.Contains(names, database) {
		err = databaseNotFound(database)
	}
	return err
}

// measurementNames returns the sorted names of the measurements of FROM, of all when there is
// none. An error: the database is not there.
func (x *execution) measurementNames(database string, sources ql.Sources) ([]string, error) {
	all, err := x.Source.Metrics(x.Ctx, database, "", 0)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, x.checkDatabase(database)
	}
	if len(sources) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return !slices.ContainsFunc(sources, func(source ql.Source) bool {
			m, ok := source.(*ql.Measurement)
			return ok && (m.Regex != nil && m.Regex.Val.MatchString(name) || m.Regex == nil && m.Name == name)
		})
	}), nil
}

// catalogue finds series by their tags. A name in its condition is always that of a tag.
type catalogue struct {
	x         *execution
	database  string
	condition load.Condition
	decide    load.Evaluator
	names     []string // symbols of decide
}

// newCatalogue takes a condition, of which time is left out.
func (x *execution) newCatalogue(database string, where ql.Expr) (*catalogue, error) {
	expr, _, err := ql.ConditionExpr(where, &ql.NowValuer{Now: x.now})
	if err != nil {
		return nil, err
	}
	if err := compile.CheckCondition(expr); err != nil {
		return nil, err
	}
	if err := checkTagCondition(expr); err != nil {
		return nil, err
	}
	c := &catalogue{x: x, database: database, condition: load.SplitCondition(expr, &load.Measurement{})}
	if c.condition.Rest == nil {
		return c, nil
	}
	c.decide, err = load.NewEvaluator(c.condition.Rest, load.Variables(&c.names))
	return c, err
}

// checkTagCondition refuses comparisons that no tag meets, of which nobody would hear otherwise. The errors begin as InfluxDB's.
func checkTagCondition(expr ql.Expr) error {
	switch expr := expr.(type) {
	case *ql.ParenExpr:
		return checkTagCondition(expr.Expr)
	case *ql.BinaryExpr:
		if expr.Op == ql.AND || expr.Op == ql.OR {
			if err := checkTagCondition(expr.LHS); err != nil {
				return err
			}
			return checkTagCondition(expr.RHS)
		}
		ref, ok := expr.LHS.(*ql.VarRef)
		if !ok {
			return nil
		}
		switch expr.Op {
		case ql.LT, ql.LTE, ql.GT, ql.GTE:
			return fmt.Errorf("invalid tag comparison operator: %s: WHERE is about tags here, and their values are texts: use =, !=, =~ or !~", expr)
		case ql.EQ, ql.NEQ:
			switch expr.RHS.(type) {
			case *ql.NumberLiteral, *ql.IntegerLiteral, *ql.UnsignedLiteral, *ql.BooleanLiteral:
				return fmt.Errorf("right side of '%s' must be a tag value string: %s: WHERE is about tags here, and their values are texts: write %s %s '%s'", expr.Op, expr, ref, expr.Op, expr.RHS)
			}
		}
	}
	return nil
}

// isAll reports whether the condition leaves nothing out.
func (c *catalogue) isAll() bool { return len(c.condition.Matchers) == 0 && c.decide == nil }

// walk visits the series of a measurement, or of all when it is empty, as far as stop says.
func (c *catalogue) walk(metric string, visit func(metric string, parts []series.Tag) error) error {
	selector := scan.Selector{Database: c.database, Metric: metric, MetricAny: metric == "", Matchers: c.condition.Matchers}
	var parts []series.Tag
	symbols := make([]answer.Value, len(c.names))
	_, err := c.x.Source.Series(c.x.Ctx, &selector, 0, func(key series.Key) error {
		var name []byte
		var err error
		if _, name, parts, err = key.Parts(parts[:0]); err != nil {
			return err
		}
		if c.decide != nil {
			for i, symbol := range c.names {
				if symbol == "_name" {
					symbols[i] = answer.String(string(name))
				} else {
					symbols[i] = answer.String(load.ValueOfPart(parts, symbol))
				}
			}
			if !c.decide(symbols).IsTrue() {
				return nil
			}
		}
		return visit(string(name), parts)
	})
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// has reports whether a measurement has a series that the condition wants.
func (c *catalogue) has(metric string) (bool, error) {
	found := false
	err := c.walk(metric, func(string, []series.Tag) error {
		found = true
		return scan.ErrStopped
	})
	return found, err
}
