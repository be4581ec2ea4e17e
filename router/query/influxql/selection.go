package influxql

import (
	"errors"
	"fmt"
	"slices"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/compile"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// scope is what holds for a SELECT beside its fields; a subquery takes some of it over
// from the statement around.
type scope struct {
	load.Span
	interval        load.Interval
	ascending       bool
	fill            ql.FillOption
	fillValue       answer.Value
	by              []string // names of tags to group by, sorted
	limit, offset   int
	slimit, soffset int
	condition       ql.Expr
}

// selection is a SELECT that is ready to run. Its symbols are the values of calls and of
// variables outside of calls, from which the fields of a row are computed.
type selection struct {
	*execution
	scope
	stmt    *ql.SelectStatement
	schema  *schema
	held    *load.Holding
	columns []string
	fields  []load.Evaluator
	inputs  []ql.VarRef // variables that are read: the columns of tables
	calls   []*call
	// auxiliary are the inputs that are symbols themselves, with their places.
	auxiliary []auxiliary
	kinds     []answer.Kind // of the symbols
}

// auxiliary is a variable outside of any call.
type auxiliary struct {
	input int // its column in tables
	place int // among the symbols
}

// selectRows runs a SELECT.
func (x *execution) selectRows(stmt *ql.SelectStatement, out answer.Sink) error {
	compiled, err := compile.Compile(stmt, x.now, x.limits.DepthMax)
	if err != nil {
		return err
	}
	schema := x.newSchema(compiled.Times)
	if err := schema.resolve(compiled.Statement); err != nil {
		return err
	}
	if err := schema.checkColumns(compiled.Statement); err != nil {
		return err
	}
	rewritten, err := compiled.Statement.RewriteFields(schema)
	if err != nil {
		return err
	}
	for _, f := range rewritten.Fields {
		if _, err := typesOf().EvalType(f.Expr); err != nil {
			return err
		}
	}
	held := &load.Holding{}
	defer x.Release(held)
	s, err := x.newSelection(rewritten, x.topScope(rewritten, compiled), schema, held)
	if err != nil {
		return err
	}
	return s.run(out)
}

// topScope returns the scope of a statement that is no subquery.
func (x *execution) topScope(stmt *ql.SelectStatement, c *compile.Select) scope {
	sc := ownScope(stmt)
	sc.interval, sc.condition, sc.ascending = c.Interval, stmt.Condition, c.Ascending
	sc.From, sc.To = c.Times.MinTimeNano(), c.Times.MaxTimeNano()
	if c.Times.Max.IsZero() && c.Interval.DurationNs != 0 {
		sc.To = x.now.UnixNano()
	}
	return sc
}

// countMax is the most that LIMIT and the like count: sums of a few of them fit into 64 bits.
const countMax = 1 << 40

// ownScope returns the scope that a statement sets itself.
func ownScope(stmt *ql.SelectStatement) scope {
	sc := scope{fill: stmt.Fill, ascending: stmt.TimeAscending()}
	sc.limit, sc.offset = min(stmt.Limit, countMax), min(stmt.Offset, countMax)
	sc.slimit, sc.soffset = min(stmt.SLimit, countMax), min(stmt.SOffset, countMax)
	switch v := stmt.FillValue.(type) {
	case int64:
		sc.fillValue = answer.Integer(float64(v))
	case int:
		sc.fillValue = answer.Integer(float64(v))
	case float64:
		sc.fillValue = answer.Float(v)
	}
	for _, d := range stmt.Dimensions {
		if ref, ok := d.Expr.(*ql.VarRef); ok {
			sc.by = append(sc.by, ref.Val)
		}
	}
	sc.by = sortedNames(sc.by)
	return sc
}

func sortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// subScope returns the scope of a subquery of a selection that reads a span.
func (s *selection) subScope(stmt *ql.SelectStatement, of load.Span) (scope, error) {
	sc := ownScope(stmt)
	condition, times, err := ql.ConditionExpr(stmt.Condition, &ql.NowValuer{Now: s.now, Location: stmt.Location})
	if err != nil {
		return sc, err
	}
	sc.condition, sc.ascending = condition, s.ascending
	sc.From, sc.To = max(times.MinTimeNano(), of.From), min(times.MaxTimeNano(), of.To)
	if sc.interval, err = intervalOf(stmt); err != nil {
		return sc, err
	}
	if sc.interval.DurationNs == 0 {
		zone := sc.interval.Location
		sc.interval = s.interval
		if zone != nil {
			sc.interval.Location = zone
		}
	} else if sc.To == ql.MaxTime {
		sc.To = s.now.UnixNano()
	}
	sc.by = sortedNames(append(sc.by, s.by...))
	sc.slimit += s.slimit
	sc.soffset += s.soffset
	if !stmt.IsRawQuery && sc.fill == ql.NullFill {
		sc.fill = ql.NoFill
	}
	return sc, nil
}

// intervalOf returns the interval of GROUP BY time().
func intervalOf(stmt *ql.SelectStatement) (load.Interval, error) {
	v := load.Interval{Location: compile.Zone(stmt)}
	duration, err := stmt.GroupByInterval()
	if err != nil || duration <= 0 {
		return v, err
	}
	offset, err := stmt.GroupByOffset()
	v.DurationNs, v.OffsetNs = int64(duration), int64(offset)
	return v, err
}

// newSelection plans a statement whose variables have their types.
func (x *execution) newSelection(stmt *ql.SelectStatement, sc scope, schema *schema, held *load.Holding) (*selection, error) {
	s := &selection{execution: x, scope: sc, stmt: stmt, schema: schema, held: held, columns: stmt.ColumnNames()}
	symbols := map[string]int{}
	for _, f := range fieldsOf(stmt) {
		if err := s.mapSymbols(f, symbols); err != nil {
			return nil, err
		}
	}
	selector := len(s.calls) == 1 && ql.IsSelector(s.calls[0].expr)
	for _, c := range s.calls {
		c.selector = selector
		c.base().selector = selector
	}
	for _, f := range fieldsOf(stmt) {
		e, err := load.NewEvaluator(f, func(expr ql.Expr) (int, bool) {
			place, ok := symbols[symbolKey(expr)]
			return place, ok
		})
		if err != nil {
			return nil, err
		}
		s.fields = append(s.fields, e)
	}
	return s, s.checkWindows()
}

// fieldsOf returns the expressions of the columns. The tags and fields that top() and
// bottom() name have columns of their own.
func fieldsOf(stmt *ql.SelectStatement) []ql.Expr {
	var all []ql.Expr
	for _, f := range stmt.Fields {
		all = append(all, f.Expr)
		if call, ok := f.Expr.(*ql.Call); ok && isTopBottom(call) {
			all = append(all, call.Args[1:len(call.Args)-1]...)
		}
	}
	return all
}

func isTopBottom(call *ql.Call) bool { return call.Name == "top" || call.Name == "bottom" }

// symbolKey returns the text by which calls and variables are told apart; empty: the
// expression is no symbol.
func symbolKey(expr ql.Expr) string {
	switch expr := expr.(type) {
	case *ql.VarRef:
		return expr.String()
	case *ql.Call:
		if !load.IsMath(expr) {
			return expr.String()
		}
	}
	return ""
}

// mapSymbols assigns places to the calls and variables of an expression.
func (s *selection) mapSymbols(expr ql.Expr, symbols map[string]int) error {
	if key := symbolKey(expr); key != "" {
		if _, known := symbols[key]; known {
			return nil
		}
		t, err := typesOf().EvalType(expr)
		if err != nil {
			return err
		}
		place := len(s.kinds)
		symbols[key] = place
		s.kinds = append(s.kinds, answer.KindOf(t))
		if ref, ok := expr.(*ql.VarRef); ok {
			s.auxiliary = append(s.auxiliary, auxiliary{input: s.input(ref), place: place})
			return nil
		}
		c, err := s.newCall(expr.(*ql.Call), s.Span)
		if err != nil {
			return err
		}
		c.place = place
		s.calls = append(s.calls, c)
		return nil
	}
	switch expr := expr.(type) {
	case *ql.ParenExpr:
		return s.mapSymbols(expr.Expr, symbols)
	case *ql.BinaryExpr:
		if err := s.mapSymbols(expr.LHS, symbols); err != nil {
			return err
		}
		return s.mapSymbols(expr.RHS, symbols)
	case *ql.Call:
		for _, argument := range expr.Args {
			if err := s.mapSymbols(argument, symbols); err != nil {
				return err
			}
		}
	}
	return nil
}

// input returns the column of a variable.
func (s *selection) input(ref *ql.VarRef) int {
	if at := slices.Index(s.inputs, *ref); at >= 0 {
		return at
	}
	s.inputs = append(s.inputs, *ref)
	return len(s.inputs) - 1
}

// checkWindows refuses statements that answer too many windows for each series. Without a
// fill there are no more than samples, which have bounds of their own.
func (s *selection) checkWindows() error {
	d := s.interval.DurationNs
	if d == 0 || s.fill == ql.NoFill || len(s.calls) == 0 || s.From == ql.MinTime || s.From > s.To {
		return nil
	}
	n := uint64(s.To-s.From)/uint64(d) + 1 // the difference fits into 64 bits without a sign
	if n > uint64(s.limits.WindowsMax) {
		return fmt.Errorf("max-select-buckets limit exceeded: (%d/%d)", n, s.limits.WindowsMax)
	}
	return nil
}

// run answers the rows.
func (s *selection) run(out answer.Sink) error {
	if s.From > s.To || len(s.stmt.Sources) == 0 {
		return nil
	}
	if len(s.calls) == 0 {
		return s.raw(out)
	}
	return s.aggregate(out)
}

// read returns the tables of all sources within a span.
func (s *selection) read(of load.Span) ([]*load.Table, error) {
	var all []*load.Table
	for _, source := range s.stmt.Sources {
		var tables []*load.Table
		var err error
		switch source := source.(type) {
		case *ql.Measurement:
			tables, err = s.readMeasurement(source, of)
		case *ql.SubQuery:
			tables, err = s.readSubquery(source.Statement, of)
		default:
			err = errors.New("unsupported source")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, tables...)
	}
	return all, nil
}

func (s *selection) loader(source *ql.Measurement) (*load.Loader, error) {
	m, err := s.schema.measurement(source.Database, source.Name)
	if err != nil {
		return nil, err
	}
	return s.NewLoader(s.held, m, s.inputs, s.condition)
}

func (s *selection) readMeasurement(source *ql.Measurement, of load.Span) ([]*load.Table, error) {
	l, err := s.loader(source)
	if err != nil || l == nil {
		return nil, err
	}
	if len(s.calls) == 0 && s.limit > 0 && len(l.Condition.Fields) == 0 {
		l.RowsMax, l.Backwards = s.offset+s.limit, !s.ascending
	}
	return l.Tables(of)
}

// head returns the beginning of a group's series.
func (s *selection) head(g *load.Group) *answer.Head {
	h := &answer.Head{Name: g.Name, Tags: g.Tags, Columns: s.columns, Timed: !s.stmt.OmitTime, Zone: s.stmt.Location}
	if h.Zone == time.Local {
		h.Zone = nil
	}
	return h
}

// hasMeasurement reports whether a source is no subquery. Groups are cut by SLIMIT there.
func (s *selection) hasMeasurement() bool {
	return slices.ContainsFunc(s.stmt.Sources, func(source ql.Source) bool {
		_, ok := source.(*ql.Measurement)
		return ok
	})
}

// inOrder returns groups as the answer has them.
func (s *selection) inOrder(groups []*load.Group) []*load.Group {
	if s.hasMeasurement() {
		groups = load.Cut(groups, s.slimit, s.soffset)
	}
	if !s.ascending {
		slices.Reverse(groups)
	}
	return groups
}
