package influxql

import (
	"maps"
	"slices"
	"strings"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

func (x *execution) showTagKeys(s *ql.ShowTagKeysStatement, out answer.Sink) error {
	return x.eachMeasurement(s.Database, s.Sources, s.Condition, func(name string, c *catalogue) error {
		keys, err := c.tagKeys(name)
		if err != nil {
			return err
		}
		return list(out, &answer.Head{Name: name, Columns: []string{"tagKey"}}, textRows(keys), s.Offset, s.Limit)
	})
}

// tagKeys returns the sorted names of tags of a measurement.
func (c *catalogue) tagKeys(metric string) ([]string, error) {
	if c.isAll() {
		keys, err := c.x.Source.TagNames(c.x.Ctx, c.database, metric, "", 0)
		return slices.DeleteFunc(keys, func(key string) bool { return key == series.FieldTagName }), err
	}
	seen := map[string]struct{}{}
	err := c.walk(metric, func(_ string, parts []series.Tag) error {
		for _, t := range parts {
			if string(t.Name) != series.FieldTagName {
				seen[string(t.Name)] = struct{}{}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(seen)), err
}

// keyFilter returns which tags WITH KEY means.
func keyFilter(s *ql.ShowTagValuesStatement) func(key string) bool {
	return keysWanted(s.Op, s.TagKeyExpr)
}

func keysWanted(op ql.Token, expr ql.Literal) func(key string) bool {
	switch expr := expr.(type) {
	case *ql.ListLiteral:
		return func(key string) bool { return slices.Contains(expr.Vals, key) }
	case *ql.StringLiteral:
		return func(key string) bool { return (key == expr.Val) == (op == ql.EQ) }
	case *ql.RegexLiteral:
		return func(key string) bool { return expr.Val.MatchString(key) == (op == ql.EQREGEX) }
	}
	return func(string) bool { return false }
}

func (x *execution) showTagValues(s *ql.ShowTagValuesStatement, out answer.Sink) error {
	wanted := keyFilter(s)
	return x.eachMeasurement(s.Database, s.Sources, s.Condition, func(name string, c *catalogue) error {
		held := &load.Holding{}
		defer x.Release(held)
		rows, err := c.tagValues(held, name, wanted)
		if err != nil {
			return err
		}
		return list(out, &answer.Head{Name: name, Columns: []string{"key", "value"}}, rows, s.Offset, s.Limit)
	})
}

// tagValues returns rows of key and value, sorted.
func (c *catalogue) tagValues(held *load.Holding, metric string, wanted func(string) bool) ([][]answer.Value, error) {
	found := map[answer.Tag]struct{}{}
	add := func(key, v string) error {
		n := len(found)
		found[answer.Tag{Key: key, Value: v}] = struct{}{}
		return c.x.Take(held, int64(len(found)-n)*int64(300+len(v))) // here, and as a row
	}
	if c.isAll() {
		keys, err := c.tagKeys(metric)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if !wanted(key) {
				continue
			}
			values, err := c.x.Source.TagValues(c.x.Ctx, c.database, metric, key, "", 0)
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				if err := add(key, v); err != nil {
					return nil, err
				}
			}
		}
	} else if err := c.walk(metric, func(_ string, parts []series.Tag) error {
		for _, t := range parts {
			if key := string(t.Name); key != series.FieldTagName && wanted(key) {
				if err := add(key, string(t.Value)); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	rows := make([][]answer.Value, 0, len(found))
	for t := range found {
		rows = append(rows, []answer.Value{answer.String(t.Key), answer.String(t.Value)})
	}
	slices.SortFunc(rows, func(a, b []answer.Value) int {
		if c := strings.Compare(a[0].Text, b[0].Text); c != 0 {
			return c
		}
		return strings.Compare(a[1].Text, b[1].Text)
	})
	return rows, nil
}

func (x *execution) showSeries(s *ql.ShowSeriesStatement, out answer.Sink) error {
	var keys []string
	held := &load.Holding{}
	defer x.Release(held)
	err := x.eachMeasurement(s.Database, s.Sources, s.Condition, func(name string, c *catalogue) error {
		found, err := c.seriesKeys(held, name)
		keys = append(keys, found...)
		return err
	})
	if err != nil {
		return err
	}
	return list(out, &answer.Head{Columns: []string{"key"}}, textRows(keys), s.Offset, s.Limit)
}

// seriesKeys returns the sorted keys of the series of a measurement, as line protocol writes
// them. The fields of a point share one.
func (c *catalogue) seriesKeys(held *load.Holding, metric string) ([]string, error) {
	seen := map[string]struct{}{}
	var key []byte
	err := c.walk(metric, func(name string, parts []series.Tag) error {
		key = append(key[:0], measurementEscaper.Replace(name)...)
		for _, t := range parts {
			if string(t.Name) != series.FieldTagName {
				key = append(append(append(append(key, ','), answer.EscapeTag(string(t.Name))...), '='), answer.EscapeTag(string(t.Value))...)
			}
		}
		if _, known := seen[string(key)]; known {
			return nil
		}
		seen[string(key)] = struct{}{}
		return c.x.Take(held, int64(2*len(key)+100))
	})
	return slices.Sorted(maps.Keys(seen)), err
}

//nolint:gochecknoglobals // a constant table
var measurementEscaper = strings.NewReplacer(",", `\,`, " ", `\ `)
