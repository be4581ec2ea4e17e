package continuous

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
)

// Errors of a Set. Others are those of its Store.
var (
	// ErrQuery: what a statement wants cannot be run continuously.
	ErrQuery = errors.New("not a continuous query")
	// ErrExists: there is another query of the name. The words are InfluxDB's.
	ErrExists = errors.New("continuous query already exists")
	// errFormat marks a record that cannot be read.
	errFormat = errors.New("not a record of a continuous query that this version reads")
)

// Bounds of a query.
const (
	nameBytesMax = 128
	textBytesMax = 4 << 10
	everyMin     = time.Second // the service looks for queries that are due so often
)

// Query is a continuous query.
type Query struct {
	Database string // canonical
	Name     string
	Text     string // the statement that makes it

	created  time.Time
	selects  *ql.SelectStatement // what is selected, into what
	reads    []string            // databases, canonical
	schedule schedule
}

// record is the text of a query in a store.
type record struct {
	Format    int    `json:"format"`
	Query     string `json:"query"`
	CreatedMs int64  `json:"created_ms"`
}

// recordFormat is the format of records. One of another format is neither run nor listed.
const recordFormat = 1

// idOf returns the id of a query in a store.
func idOf(database, name string) string {
	return url.PathEscape(access.Display(database)) + "/" + url.PathEscape(name)
}

// newQuery returns the query that a statement makes. Errors: ErrQuery.
func newQuery(s *ql.CreateContinuousQueryStatement, created time.Time) (*Query, error) {
	refuse := func(format string, args ...any) (*Query, error) {
		return nil, fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
	}
	q := &Query{Database: access.Canonical(s.Database), Name: s.Name, Text: s.String(), created: created, selects: s.Source}
	switch {
	case s.Name == "" || len(s.Name) > nameBytesMax:
		return refuse("a name has 1 to %d bytes, this one %d", nameBytesMax, len(s.Name))
	case len(q.Text) > textBytesMax:
		return refuse("the statement has %d bytes, at most %d: select with a regular expression, or make several of it", len(q.Text), textBytesMax)
	case s.Source.IsRawQuery:
		return refuse("continuous queries must be aggregate queries: select with a function, as mean(value), and GROUP BY time(…)")
	}
	var err error
	if q.schedule.interval, err = s.Source.GroupByInterval(); err != nil {
		return refuse("%s", err)
	}
	if q.schedule.offset, err = s.Source.GroupByOffset(); err != nil {
		return refuse("%s", err)
	}
	q.schedule.every, q.schedule.reach, q.schedule.location = s.ResampleEvery, s.ResampleFor, s.Source.Location
	q.schedule.setDefaults()
	if q.schedule.interval < everyMin || q.schedule.every < everyMin {
		return refuse("it would run more often than each second: choose GROUP BY time(1s) or longer, and RESAMPLE EVERY 1s or longer")
	}
	if overwrites(s.Source, q.Database) {
		return refuse("it writes into the measurement that it reads, and names of retention policies keep nothing apart here: choose another measurement or database for INTO")
	}
	q.reads = readsOf(s.Source, q.Database)
	return q, nil
}

// readsOf returns the databases that a SELECT in one reads.
func readsOf(s *ql.SelectStatement, database string) (all []string) {
	for _, source := range s.Sources {
		switch source := source.(type) {
		case *ql.Measurement:
			all = append(all, nameOf(source.Database, database))
		case *ql.SubQuery:
			all = append(all, readsOf(source.Statement, database)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nameOf returns the canonical name of a database that a statement in another one names, or that one.
func nameOf(name, database string) string {
	if name == "" {
		return database
	}
	return access.Canonical(name)
}

// overwrites reports whether a SELECT writes into a measurement that it reads, which only a name of a
// retention policy would keep apart.
func overwrites(s *ql.SelectStatement, database string) bool {
	target := s.Target.Measurement
	on := func(name string) string { return nameOf(name, database) }
	for _, source := range s.Sources {
		switch source := source.(type) {
		case *ql.Measurement:
			if on(source.Database) == on(target.Database) && (target.Name == "" || target.Name == source.Name || source.Regex != nil && source.Regex.Val.MatchString(target.Name)) {
				return true
			}
		case *ql.SubQuery:
			inner := source.Statement.Clone()
			inner.Target = s.Target
			if overwrites(inner, database) {
				return true
			}
		}
	}
	return false
}

// encode returns the text of a query's record.
func (q *Query) encode() (string, error) {
	text, err := json.Marshal(record{recordFormat, q.Text, q.created.UnixMilli()})
	return string(text), err
}

// decode reads the record of an id. Errors: errFormat.
func decode(id, text string) (*Query, error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("%w: format %d, and this version reads %d", errFormat, r.Format, recordFormat)
	}
	statement, err := ql.NewParser(strings.NewReader(r.Query)).ParseStatement()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	create, ok := statement.(*ql.CreateContinuousQueryStatement)
	if !ok {
		return nil, fmt.Errorf("%w: %.100q", errFormat, r.Query)
	}
	q, err := newQuery(create, time.UnixMilli(r.CreatedMs))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	if idOf(q.Database, q.Name) != id || q.Text != r.Query {
		return nil, fmt.Errorf("%w: %q says %q", errFormat, id, r.Query)
	}
	return q, nil
}

// between returns what a run selects: the SELECT with the windows from and to instead of any times of its own.
func (q *Query) between(from, to time.Time) (*ql.SelectStatement, error) {
	s := q.selects.Clone()
	s.Location = q.selects.Location
	condition, _, err := ql.ConditionExpr(s.Condition, &ql.NowValuer{Now: from})
	if err != nil {
		return nil, err
	}
	bound := func(op ql.Token, at time.Time) ql.Expr {
		return &ql.BinaryExpr{Op: op, LHS: &ql.VarRef{Val: "time"}, RHS: &ql.TimeLiteral{Val: at.UTC()}}
	}
	s.Condition = &ql.BinaryExpr{Op: ql.AND, LHS: bound(ql.GTE, from), RHS: bound(ql.LT, to)}
	if condition != nil {
		s.Condition = &ql.BinaryExpr{Op: ql.AND, LHS: &ql.ParenExpr{Expr: condition}, RHS: s.Condition}
	}
	return s, nil
}
