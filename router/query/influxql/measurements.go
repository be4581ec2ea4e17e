package influxql

import ql "github.com/influxdata/influxql"

// matchingMeasurements returns the measurements of FROM that have a series that WHERE wants.
func (x *execution) matchingMeasurements(database string, sources ql.Sources, where ql.Expr) ([]string, error) {
	names, err := x.measurementNames(database, sources)
	if err != nil {
		return nil, err
	}
	c, err := x.newCatalogue(database, where)
	if err != nil || c.isAll() {
		return names, err
	}
	var kept []string
	for _, name := range names {
		found, err := c.has(name)
		if err != nil {
			return nil, err
		}
		if found {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

// eachMeasurement visits the measurements of FROM in the order of their names.
func (x *execution) eachMeasurement(database string, sources ql.Sources, where ql.Expr, visit func(string, *catalogue) error) error {
	database = x.on(database)
	names, err := x.measurementNames(database, sources)
	if err != nil {
		return err
	}
	c, err := x.newCatalogue(database, where)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := visit(name, c); err != nil {
			return err
		}
	}
	return nil
}
