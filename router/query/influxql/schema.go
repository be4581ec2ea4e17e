package influxql

import (
	"fmt"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

type measurementKey struct{ database, name string }

// schema has the measurements that a statement has asked for. It implements
// ql.FieldMapper and ql.CallTypeMapper.
type schema struct {
	x            *execution
	fromMs, toMs int64 // in which series are likely
	known        map[measurementKey]*load.Measurement
}

// newSchema returns the schema of a statement that asks about a range of time.
func (x *execution) newSchema(times ql.TimeRange) *schema {
	fromMs, toMs := int64(scan.TimeMsMin), int64(scan.TimeMsMax)
	if !times.Min.IsZero() || !times.Max.IsZero() {
		fromMs, toMs = load.MsRange(times.MinTimeNano(), times.MaxTimeNano())
	}
	return &schema{x: x, fromMs: fromMs, toMs: toMs, known: map[measurementKey]*load.Measurement{}}
}

// measurement returns what is known of a metric. One that is not there has no fields.
func (s *schema) measurement(database, name string) (*load.Measurement, error) {
	key := measurementKey{database, name}
	if m := s.known[key]; m != nil {
		return m, nil
	}
	m, err := s.x.ReadMeasurement(database, name, s.fromMs, s.toMs)
	if err == nil {
		s.known[key] = m
	}
	return m, err
}

// FieldDimensions implements ql.FieldMapper.
func (s *schema) FieldDimensions(of *ql.Measurement) (fields map[string]ql.DataType, dimensions map[string]struct{}, err error) {
	m, err := s.measurement(of.Database, of.Name)
	if err != nil {
		return nil, nil, err
	}
	fields, dimensions = make(map[string]ql.DataType, len(m.Fields)), make(map[string]struct{}, len(m.Tags))
	for _, name := range m.Fields {
		fields[name] = ql.Float
	}
	for _, name := range m.Tags {
		dimensions[name] = struct{}{}
	}
	return fields, dimensions, nil
}

// MapType implements ql.TypeMapper. All measurements are known by then.
func (s *schema) MapType(of *ql.Measurement, name string) ql.DataType {
	m := s.known[measurementKey{of.Database, of.Name}]
	switch {
	case m == nil:
		return ql.Unknown
	case m.HasField(name):
		return ql.Float
	case m.HasTag(name):
		return ql.Tag
	}
	return ql.Unknown
}

// CallType implements ql.CallTypeMapper.
func (s *schema) CallType(name string, arguments []ql.DataType) (ql.DataType, error) {
	return callType(name, arguments)
}

// callType returns the type of a function's values.
func callType(name string, arguments []ql.DataType) (ql.DataType, error) {
	var first ql.DataType
	if len(arguments) > 0 {
		first = arguments[0]
	}
	if n, ok := load.MathArguments(name); ok {
		for i := range min(n, len(arguments)) {
			switch arguments[i] {
			case ql.Float, ql.Integer, ql.Unsigned, ql.Unknown:
			default:
				return ql.Unknown, fmt.Errorf("invalid argument type for the %s argument in %s(): %s", []string{"first", "second"}[i], name, arguments[i])
			}
		}
		switch name {
		case "abs", "floor", "ceil", "round":
			return first, nil
		}
		return ql.Float, nil
	}
	switch name {
	case "count", "elapsed":
		return ql.Integer, nil
	case "mean", "median", "integral", "stddev", "derivative", "non_negative_derivative", "moving_average", "holt_winters", "holt_winters_with_fit":
		return ql.Float, nil
	}
	return first, nil
}

// typesOf evaluates types of expressions whose variables have their types already.
func typesOf() *ql.TypeValuerEval { return &ql.TypeValuerEval{TypeMapper: callTypes{}} }

// callTypes implements ql.CallTypeMapper without any variable.
type callTypes struct{}

// MapType implements ql.TypeMapper.
func (callTypes) MapType(*ql.Measurement, string) ql.DataType { return ql.Unknown }

// CallType implements ql.CallTypeMapper.
func (callTypes) CallType(name string, arguments []ql.DataType) (ql.DataType, error) {
	return callType(name, arguments)
}

// resolve puts measurements that are there in the place of the sources of a statement:
// with their database, and those that a regular expression matches one by one.
func (s *schema) resolve(stmt *ql.SelectStatement) error {
	var all ql.Sources
	for _, source := range stmt.Sources {
		switch source := source.(type) {
		case *ql.SubQuery:
			if err := s.resolve(source.Statement); err != nil {
				return err
			}
			all = append(all, source)
		case *ql.Measurement:
			found, err := s.find(source)
			if err != nil {
				return err
			}
			for _, m := range found {
				all = append(all, m)
			}
		}
	}
	stmt.Sources = all
	return nil
}

// find returns the measurements of a source that are there, sorted.
func (s *schema) find(source *ql.Measurement) ([]*ql.Measurement, error) {
	database := s.x.on(source.Database)
	names := []string{source.Name}
	if source.Regex != nil {
		var err error
		if names, err = s.x.Source.Metrics(s.x.Ctx, database, "", 0); err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !source.Regex.Val.MatchString(name) })
	}
	var found []*ql.Measurement
	for _, name := range names {
		m, err := s.measurement(database, name)
		if err != nil {
			return nil, err
		}
		if len(m.Fields) > 0 {
			found = append(found, &ql.Measurement{Database: database, Name: name})
		}
	}
	if len(found) == 0 {
		return nil, s.x.checkDatabase(database)
	}
	return found, nil
}
