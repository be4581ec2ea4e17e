package influxql

import (
	"fmt"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// cardinality is a SHOW … CARDINALITY statement.
type cardinality struct {
	what          string // as the statement names it
	database      string
	sources       ql.Sources
	where         ql.Expr
	dimensions    ql.Dimensions
	offset, limit int
	whole         bool // one number for all measurements, as the statements without EXACT and clauses give it
	wanted        func(key string) bool
}

// cardinalityOf reads one of the statements.
func cardinalityOf(statement ql.Statement) (*cardinality, bool) {
	var c *cardinality
	switch s := statement.(type) {
	case *ql.ShowMeasurementCardinalityStatement:
		c = &cardinality{what: "MEASUREMENT", database: s.Database, sources: s.Sources, where: s.Condition, dimensions: s.Dimensions, offset: s.Offset, limit: s.Limit, whole: !s.Exact}
	case *ql.ShowSeriesCardinalityStatement:
		c = &cardinality{what: "SERIES", database: s.Database, sources: s.Sources, where: s.Condition, dimensions: s.Dimensions, offset: s.Offset, limit: s.Limit, whole: !s.Exact}
	case *ql.ShowFieldKeyCardinalityStatement:
		c = &cardinality{what: "FIELD KEY", database: s.Database, sources: s.Sources, where: s.Condition, dimensions: s.Dimensions, offset: s.Offset, limit: s.Limit}
	case *ql.ShowTagKeyCardinalityStatement:
		c = &cardinality{what: "TAG KEY", database: s.Database, sources: s.Sources, where: s.Condition, dimensions: s.Dimensions, offset: s.Offset, limit: s.Limit}
	case *ql.ShowTagValuesCardinalityStatement:
		c = &cardinality{what: "TAG VALUES", database: s.Database, sources: s.Sources, where: s.Condition, dimensions: s.Dimensions, offset: s.Offset, limit: s.Limit,
			wanted: keysWanted(s.Op, s.TagKeyExpr)}
	default:
		return nil, false
	}
	c.whole = c.whole && c.sources == nil && c.where == nil && c.dimensions == nil && c.limit == 0 && c.offset == 0
	return c, true
}

func (x *execution) showCardinality(c *cardinality, out answer.Sink) error {
	if ql.HasTimeExpr(c.where) {
		return fmt.Errorf("SHOW %s EXACT CARDINALITY doesn't support time in WHERE clause", c.what)
	}
	if len(c.dimensions) > 0 {
		return fmt.Errorf("not supported: GROUP BY in SHOW %s CARDINALITY", c.what)
	}
	count := func(h *answer.Head, n int64) error {
		return list(out, h, [][]answer.Value{{answer.Integer(float64(n))}}, c.offset, c.limit)
	}
	if c.what == "MEASUREMENT" {
		names, err := x.matchingMeasurements(x.on(c.database), c.sources, c.where)
		if err != nil {
			return err
		}
		if c.whole {
			return count(&answer.Head{Columns: []string{"cardinality estimation"}}, int64(len(names)))
		}
		if len(names) == 0 {
			return nil
		}
		return count(&answer.Head{Columns: []string{"count"}}, int64(len(names)))
	}
	var total int64
	held := &load.Holding{}
	defer x.Release(held)
	err := x.eachMeasurement(c.database, c.sources, c.where, func(name string, in *catalogue) error {
		n, err := in.count(held, c, name)
		if err != nil || n == 0 {
			return err
		}
		total += n
		if c.whole {
			return nil
		}
		return count(&answer.Head{Name: name, Columns: []string{"count"}}, n)
	})
	if err != nil || !c.whole {
		return err
	}
	return count(&answer.Head{Columns: []string{"cardinality estimation"}}, total)
}

// count returns the number of series, fields, tags or values of tags of a measurement.
func (c *catalogue) count(held *load.Holding, of *cardinality, metric string) (int64, error) {
	switch of.what {
	case "FIELD KEY":
		m, err := c.x.ReadMeasurement(c.database, metric, scan.TimeMsMin, scan.TimeMsMax)
		if err != nil {
			return 0, err
		}
		return int64(len(m.Fields)), nil
	case "TAG KEY":
		keys, err := c.tagKeys(metric)
		return int64(len(keys)), err
	case "TAG VALUES":
		rows, err := c.tagValues(held, metric, of.wanted)
		return int64(len(rows)), err
	}
	if c.decide == nil { // one field: the index knows
		m, err := c.x.ReadMeasurement(c.database, metric, scan.TimeMsMin, scan.TimeMsMax)
		if err != nil {
			return 0, err
		}
		if len(m.Fields) == 1 {
			selector := scan.Selector{Database: c.database, Metric: metric, Matchers: c.condition.Matchers}
			return c.x.Source.Series(c.x.Ctx, &selector, 1, func(series.Key) error { return nil })
		}
	}
	keys, err := c.seriesKeys(held, metric)
	return int64(len(keys)), err
}
