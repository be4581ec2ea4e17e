// Package compile checks a SELECT as InfluxDB 1.8 does, with its messages, and brings it into the form that is run: time
// is out of its condition, and DISTINCT and the names of time are written out. It knows no measurement, so whether a
// field is there or is a number is none of its questions, and it reads nothing.
package compile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// Select is a SELECT that was checked.
type Select struct {
	Statement *ql.SelectStatement // to be run; its condition is without time
	Times     ql.TimeRange        // of the condition
	Interval  load.Interval       // of GROUP BY time()
	Ascending bool                // in order of time
}

// compiler checks one statement; subqueries have compilers of their own.
type compiler struct {
	now       time.Time
	depthLeft int64

	condition ql.Expr // without time
	times     ql.TimeRange
	interval  load.Interval
	inherited bool // the interval is that of the statement around
	ascending bool
	timeName  string // of the time column

	limit         int
	calls         int
	selectorsOnly bool // no aggregate is among the calls
	distinct      bool
	topOrBottom   string
	auxiliary     bool // there are fields or tags beside the calls
	fields        int
	wildcards     bool // are allowed in the field that is being checked
}

// Compile checks a copy of a statement, in which now() is a time and subqueries are nested at most depthMax deep.
func Compile(stmt *ql.SelectStatement, now time.Time, depthMax int64) (*Select, error) {
	c := &compiler{now: now, depthLeft: depthMax, timeName: "time", selectorsOnly: true}
	stmt = stmt.Clone()
	if err := c.read(stmt); err != nil {
		return nil, err
	}
	if err := c.check(stmt); err != nil {
		return nil, err
	}
	stmt.TimeAlias, stmt.Condition = c.timeName, c.condition
	stmt.RewriteDistinct()
	stmt.RewriteTimeFields()
	return &Select{Statement: stmt, Times: c.times, Interval: c.interval, Ascending: c.ascending}, nil
}

// read takes over what holds for the statement as a whole.
func (c *compiler) read(stmt *ql.SelectStatement) error {
	c.ascending, c.limit = stmt.TimeAscending(), stmt.Limit
	condition, times, err := ql.ConditionExpr(stmt.Condition, &ql.NowValuer{Now: c.now, Location: stmt.Location})
	if err != nil {
		return err
	}
	if err := CheckCondition(condition); err != nil {
		return err
	}
	c.condition, c.times = condition, times
	return c.checkDimensions(stmt)
}

func (c *compiler) check(stmt *ql.SelectStatement) error {
	if err := c.checkFields(stmt); err != nil {
		return err
	}
	if err := c.checkTogether(stmt); err != nil {
		return err
	}
	for _, source := range stmt.Sources {
		if sub, ok := source.(*ql.SubQuery); ok {
			sub.Statement.OmitTime = true
			if err := c.checkSubquery(sub.Statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSubquery checks a statement within another one.
func (c *compiler) checkSubquery(stmt *ql.SelectStatement) error {
	if c.depthLeft <= 0 {
		return errors.New("subqueries are nested too deep")
	}
	sub := &compiler{now: c.now, depthLeft: c.depthLeft - 1, timeName: "time", selectorsOnly: true}
	if err := sub.read(stmt); err != nil {
		return err
	}
	stmt.Condition = ql.Reduce(stmt.Condition, &ql.NowValuer{Now: c.now, Location: stmt.Location})
	if len(stmt.SortFields) > 0 && sub.ascending != c.ascending {
		return errors.New("subqueries must be ordered in the same direction as the query itself")
	}
	sub.ascending = c.ascending
	if c.interval.DurationNs != 0 && sub.interval.DurationNs == 0 {
		sub.interval, sub.inherited = c.interval, true
	}
	return sub.check(stmt)
}

// checkFields checks the fields one by one. The column time is always there: naming it
// renames it at most.
func (c *compiler) checkFields(stmt *ql.SelectStatement) error {
	for _, f := range stmt.Fields {
		if ref, ok := f.Expr.(*ql.VarRef); ok && ref.Val == "time" {
			if f.Alias != "" {
				c.timeName = f.Alias
			}
			continue
		}
		f.Expr = ql.Reduce(f.Expr, nil)
		c.fields++
		c.wildcards = true
		if err := c.checkExpression(f.Expr); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) checkExpression(expr ql.Expr) error {
	switch expr := expr.(type) {
	case *ql.VarRef:
		c.auxiliary = true
		return nil
	case *ql.Wildcard:
		c.auxiliary = true
		if !c.wildcards {
			return errors.New("unable to use wildcard in a binary expression")
		}
		return nil
	case *ql.RegexLiteral:
		c.auxiliary = true
		if !c.wildcards {
			return errors.New("unable to use regex in a binary expression")
		}
		return nil
	case *ql.Call:
		return c.checkCall(expr)
	case *ql.Distinct:
		c.calls++
		return c.checkDistinct(expr.NewCall().Args, false)
	case *ql.BinaryExpr:
		return c.checkBinary(expr)
	case *ql.ParenExpr:
		return c.checkExpression(expr.Expr)
	case ql.Literal:
		return errors.New("field must contain at least one variable")
	}
	return fmt.Errorf("unsupported expression: %s", expr)
}

func (c *compiler) checkBinary(expr *ql.BinaryExpr) error {
	c.wildcards = false
	_, left := expr.LHS.(ql.Literal)
	_, right := expr.RHS.(ql.Literal)
	if left && right {
		return errors.New("cannot perform a binary expression on two literals")
	}
	if !left {
		if err := c.checkExpression(expr.LHS); err != nil {
			return err
		}
	}
	if !right {
		return c.checkExpression(expr.RHS)
	}
	return nil
}

// checkDimensions reads GROUP BY.
func (c *compiler) checkDimensions(stmt *ql.SelectStatement) error {
	c.interval.Location = Zone(stmt)
	for _, d := range stmt.Dimensions {
		d.Expr = ql.Reduce(d.Expr, nil)
		switch expr := d.Expr.(type) {
		case *ql.VarRef:
			if strings.EqualFold(expr.Val, "time") {
				return errors.New("time() is a function and expects at least one argument")
			}
		case *ql.Call:
			if err := c.checkTime(stmt, expr); err != nil {
				return err
			}
		case *ql.Wildcard, *ql.RegexLiteral:
		default:
			return errors.New("only time and tag dimensions allowed")
		}
	}
	return nil
}

// checkTime reads time(duration, offset) and puts the offset as a duration into it.
func (c *compiler) checkTime(stmt *ql.SelectStatement, call *ql.Call) error {
	if call.Name != "time" {
		return errors.New("only time() calls allowed in dimensions")
	}
	if n := len(call.Args); n < 1 || n > 2 {
		return errors.New("time dimension expected 1 or 2 arguments")
	}
	duration, ok := call.Args[0].(*ql.DurationLiteral)
	if !ok {
		return errors.New("time dimension must have duration argument")
	}
	if c.interval.DurationNs != 0 {
		return errors.New("multiple time dimensions not allowed")
	}
	if duration.Val <= 0 {
		return fmt.Errorf("time dimension must be a positive duration, got %s", ql.FormatDuration(duration.Val))
	}
	c.interval.DurationNs = int64(duration.Val)
	if len(call.Args) == 1 {
		return nil
	}
	offset, err := c.offset(stmt, call.Args[1], duration.Val)
	if err != nil {
		return err
	}
	c.interval.OffsetNs = int64(offset)
	call.Args[1] = &ql.DurationLiteral{Val: offset}
	return nil
}

// offset returns the offset that an argument of time() means.
func (c *compiler) offset(stmt *ql.SelectStatement, argument ql.Expr, duration time.Duration) (time.Duration, error) {
	sinceStart := func(t time.Time) time.Duration { return t.Sub(t.Truncate(duration)) }
	switch argument := argument.(type) {
	case *ql.DurationLiteral:
		return argument.Val % duration, nil
	case *ql.TimeLiteral:
		return sinceStart(argument.Val), nil
	case *ql.Call:
		if argument.Name != "now" {
			return 0, errors.New("time dimension offset function must be now()")
		}
		if len(argument.Args) != 0 {
			return 0, errors.New("time dimension offset now() function requires no arguments")
		}
		return sinceStart(c.now), nil
	case *ql.StringLiteral:
		if argument.IsTimeLiteral() {
			t, err := argument.ToTimeLiteral(stmt.Location)
			if err != nil {
				return 0, err
			}
			return sinceStart(t.Val), nil
		}
	}
	return 0, errors.New("time dimension offset must be duration or now()")
}

// checkTogether checks what the fields and clauses are to each other.
func (c *compiler) checkTogether(stmt *ql.SelectStatement) error {
	switch {
	case c.fields == 0:
		return errors.New("at least 1 non-time field must be queried")
	case c.calls > 1 && c.topOrBottom != "":
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.topOrBottom)
	case c.calls == 0 && stmt.Fill == ql.NoFill:
		return errors.New("fill(none) must be used with a function")
	case c.calls == 0 && stmt.Fill == ql.LinearFill:
		return errors.New("fill(linear) must be used with a function")
	case c.calls == 0 && c.interval.DurationNs != 0 && !c.inherited:
		return errors.New("GROUP BY requires at least one aggregate function")
	case c.distinct && (c.calls != 1 || c.auxiliary):
		return errors.New("aggregate function distinct() cannot be combined with other functions or fields")
	case c.auxiliary && !c.selectorsOnly:
		return errors.New("mixing aggregate and non-aggregate queries is not supported")
	case c.auxiliary && c.calls > 1:
		return errors.New("mixing multiple selector functions with tags or fields is not supported")
	}
	return nil
}

// CheckCondition refuses functions of many values in a condition.
func CheckCondition(expr ql.Expr) error {
	switch expr := expr.(type) {
	case *ql.BinaryExpr:
		if err := CheckCondition(expr.LHS); err != nil {
			return err
		}
		return CheckCondition(expr.RHS)
	case *ql.ParenExpr:
		return CheckCondition(expr.Expr)
	case *ql.Call:
		n, ok := load.MathArguments(expr.Name)
		if !ok {
			return fmt.Errorf("invalid function call in condition: %s", expr)
		}
		if len(expr.Args) != n {
			return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", expr.Name, n, len(expr.Args))
		}
		for _, argument := range expr.Args {
			if err := CheckCondition(argument); err != nil {
				return err
			}
		}
	}
	return nil
}

// Zone returns the zone of tz(); nil: UTC.
func Zone(stmt *ql.SelectStatement) *time.Location {
	if stmt.Location == nil || stmt.Location == time.UTC || stmt.Location.String() == "UTC" {
		return nil
	}
	return stmt.Location
}
