package influxql

import (
	"fmt"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/guard"
)

// columnsMax bounds the columns that several wildcards and expressions make of the names of fields
// and tags, at about 600 bytes and a microsecond each, which nothing can stop. Those that one
// alone makes are as many as there are names.
const columnsMax = 50_000

// checkColumns refuses a statement whose wildcards, and those of its subqueries, which multiply,
// make too many columns. Error: guard.ErrTooLarge.
func (s *schema) checkColumns(stmt *ql.SelectStatement) error {
	_, err := s.columnsOf(stmt)
	return err
}

// columnsOf returns a bound of the columns of a statement.
func (s *schema) columnsOf(stmt *ql.SelectStatement) (columns int, err error) {
	names := 0 // of what is below
	for _, source := range stmt.Sources {
		switch source := source.(type) {
		case *ql.SubQuery:
			inner, err := s.columnsOf(source.Statement)
			if err != nil {
				return 0, err
			}
			names += inner
		case *ql.Measurement:
			m, err := s.measurement(source.Database, source.Name)
			if err != nil {
				return 0, err
			}
			names = max(names, len(m.Fields)+len(m.Tags)) // most have the same ones
		}
	}
	for _, field := range stmt.Fields {
		if isWildcard(field.Expr) {
			columns += names
		} else {
			columns++
		}
		if columns > max(columnsMax, names) {
			return 0, fmt.Errorf("%w: its wildcards and regular expressions make more than %d columns of %d names: name the fields", guard.ErrTooLarge, columnsMax, names)
		}
	}
	return columns, nil
}

// isWildcard reports whether a field stands for many, as * and mean(/x/) do.
func isWildcard(expr ql.Expr) bool {
	for {
		switch e := expr.(type) {
		case *ql.Wildcard, *ql.RegexLiteral:
			return true
		case *ql.Call:
			if len(e.Args) == 0 {
				return false
			}
			expr = e.Args[0]
		default:
			return false
		}
	}
}
