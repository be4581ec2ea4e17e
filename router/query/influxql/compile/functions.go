package compile

import (
	"errors"
	"fmt"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// checkCall checks the call of a function.
func (c *compiler) checkCall(call *ql.Call) error {
	if n, ok := load.MathArguments(call.Name); ok {
		return c.checkMath(call, n)
	}
	c.calls++
	switch call.Name {
	case "max", "min", "first", "last":
		return c.checkOne(call)
	case "count", "sum", "mean", "median", "mode", "stddev", "spread":
		c.selectorsOnly = false
		return c.checkOne(call)
	case "percentile", "sample":
		return c.checkSelection(call)
	case "distinct":
		return c.checkDistinct(call.Args, false)
	case "top", "bottom":
		return c.checkTopBottom(call)
	case "derivative", "non_negative_derivative", "elapsed":
		return c.checkRate(call)
	case "difference", "non_negative_difference", "cumulative_sum":
		if n := len(call.Args); n != 1 {
			return fmt.Errorf("invalid number of arguments for %s, expected 1, got %d", call.Name, n)
		}
		return c.checkTransformed(call)
	case "moving_average":
		return c.checkMovingAverage(call)
	case "integral":
		return c.checkIntegral(call)
	case "holt_winters", "holt_winters_with_fit":
		return c.checkHoltWinters(call)
	case "exponential_moving_average", "double_exponential_moving_average",
		"triple_exponential_moving_average", "relative_strength_index", "triple_exponential_derivative",
		"kaufmans_efficiency_ratio", "kaufmans_adaptive_moving_average", "chande_momentum_oscillator":
		return fmt.Errorf("function %s() is not supported", call.Name)
	}
	return fmt.Errorf("undefined function %s()", call.Name)
}

func (c *compiler) checkMath(call *ql.Call, arguments int) error {
	if got := len(call.Args); got != arguments {
		return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", call.Name, arguments, got)
	}
	for _, argument := range call.Args {
		if _, ok := argument.(ql.Literal); ok {
			continue
		}
		if err := c.checkExpression(argument); err != nil {
			return err
		}
	}
	return nil
}

// checkSymbol checks that an argument is a field, or stands for some.
func (c *compiler) checkSymbol(name string, argument ql.Expr) error {
	switch argument.(type) {
	case *ql.VarRef:
		return nil
	case *ql.Wildcard:
		if !c.wildcards {
			return fmt.Errorf("unsupported expression with wildcard: %s()", name)
		}
		c.selectorsOnly = false
		return nil
	case *ql.RegexLiteral:
		if !c.wildcards {
			return fmt.Errorf("unsupported expression with regex field: %s()", name)
		}
		c.selectorsOnly = false
		return nil
	}
	return fmt.Errorf("expected field argument in %s()", name)
}

// checkOne checks a function of one field.
func (c *compiler) checkOne(call *ql.Call) error {
	if n := len(call.Args); n != 1 {
		return fmt.Errorf("invalid number of arguments for %s, expected 1, got %d", call.Name, n)
	}
	if arguments, ok := distinctOf(call.Args[0]); ok && call.Name == "count" {
		return c.checkDistinct(arguments, true)
	}
	return c.checkSymbol(call.Name, call.Args[0])
}

// distinctOf returns the arguments of distinct, in either of its forms.
func distinctOf(expr ql.Expr) (arguments []ql.Expr, ok bool) {
	switch expr := expr.(type) {
	case *ql.Call:
		return expr.Args, expr.Name == "distinct"
	case *ql.Distinct:
		return expr.NewCall().Args, true
	}
	return nil, false
}

func (c *compiler) checkDistinct(arguments []ql.Expr, nested bool) error {
	if len(arguments) == 0 {
		return errors.New("distinct function requires at least one argument")
	}
	if len(arguments) != 1 {
		return errors.New("distinct function can only have one argument")
	}
	if _, ok := arguments[0].(*ql.VarRef); !ok {
		return errors.New("expected field argument in distinct()")
	}
	if !nested {
		c.distinct = true
	}
	c.selectorsOnly = false
	return nil
}

// checkSelection checks percentile and sample.
func (c *compiler) checkSelection(call *ql.Call) error {
	if n := len(call.Args); n != 2 {
		return fmt.Errorf("invalid number of arguments for %s, expected 2, got %d", call.Name, n)
	}
	switch n := call.Args[1].(type) {
	case *ql.IntegerLiteral:
		if call.Name == "sample" && n.Val > selectedMax {
			return tooMany(call, n.Val)
		}
		if call.Name == "sample" && n.Val <= 0 {
			return fmt.Errorf("sample window must be greater than 1, got %d", n.Val)
		}
	case *ql.NumberLiteral:
		if call.Name == "sample" {
			return errors.New("expected integer argument in sample()")
		}
	default:
		if call.Name == "sample" {
			return errors.New("expected integer argument in sample()")
		}
		return errors.New("expected float argument in percentile()")
	}
	return c.checkSymbol(call.Name, call.Args[0])
}

// selectedMax bounds the points that top, bottom, sample and moving_average hold.
const selectedMax = 1_000_000

func tooMany(call *ql.Call, n int64) error {
	return fmt.Errorf("%d is more points than %s() can hold: at most %d", n, call.Name, selectedMax)
}

// checkRate checks the functions of one field and a unit of time.
func (c *compiler) checkRate(call *ql.Call) error {
	if n := len(call.Args); n < 1 || n > 2 {
		return fmt.Errorf("invalid number of arguments for %s, expected at least 1 but no more than 2, got %d", call.Name, n)
	}
	if err := checkUnit(call); err != nil {
		return err
	}
	return c.checkTransformed(call)
}

func checkUnit(call *ql.Call) error {
	if len(call.Args) < 2 {
		return nil
	}
	unit, ok := call.Args[1].(*ql.DurationLiteral)
	if !ok && call.Name == "integral" {
		return errors.New("second argument must be a duration")
	}
	if !ok {
		return fmt.Errorf("second argument to %s must be a duration, got %T", call.Name, call.Args[1])
	}
	if unit.Val <= 0 {
		return fmt.Errorf("duration argument must be positive, got %s", ql.FormatDuration(unit.Val))
	}
	return nil
}

// checkTransformed checks the first argument of a function of neighbouring points.
func (c *compiler) checkTransformed(call *ql.Call) error {
	c.selectorsOnly = false
	grouped := c.interval.DurationNs != 0
	switch argument := call.Args[0].(type) {
	case *ql.Call:
		if !grouped {
			return fmt.Errorf("%s aggregate requires a GROUP BY interval", call.Name)
		}
		return c.checkNested(argument)
	case *ql.Distinct:
		return c.checkDistinct(argument.NewCall().Args, true)
	}
	if grouped && !c.inherited {
		return fmt.Errorf("aggregate function required inside the call to %s", call.Name)
	}
	return c.checkSymbol(call.Name, call.Args[0])
}

// checkNested checks a call within another one: it is no call of its own for what may stand together.
func (c *compiler) checkNested(call *ql.Call) error {
	if call.Name == "distinct" {
		return c.checkDistinct(call.Args, true)
	}
	if load.IsMath(call) {
		return fmt.Errorf("function %s() is not supported within another function", call.Name)
	}
	return c.checkCall(call)
}

func (c *compiler) checkMovingAverage(call *ql.Call) error {
	if n := len(call.Args); n != 2 {
		return fmt.Errorf("invalid number of arguments for moving_average, expected 2, got %d", n)
	}
	n, ok := call.Args[1].(*ql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("second argument for moving_average must be an integer, got %T", call.Args[1])
	}
	if n.Val > selectedMax {
		return tooMany(call, n.Val)
	}
	if n.Val <= 1 {
		return fmt.Errorf("moving_average window must be greater than 1, got %d", n.Val)
	}
	return c.checkTransformed(call)
}

// checkHoltWinters checks the call of a forecast, which is of windows.
func (c *compiler) checkHoltWinters(call *ql.Call) error {
	if n := len(call.Args); n != 3 {
		return fmt.Errorf("invalid number of arguments for %s, expected 3, got %d", call.Name, n)
	}
	horizon, ok := call.Args[1].(*ql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("expected integer argument as second arg in %s", call.Name)
	}
	if horizon.Val <= 0 {
		return fmt.Errorf("second arg to %s must be greater than 0, got %d", call.Name, horizon.Val)
	}
	season, ok := call.Args[2].(*ql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("expected integer argument as third arg in %s", call.Name)
	}
	if season.Val < 0 {
		return fmt.Errorf("third arg to %s cannot be negative, got %d", call.Name, season.Val)
	}
	if most := max(horizon.Val, season.Val); most > selectedMax {
		return tooMany(call, most)
	}
	c.selectorsOnly = false
	of, ok := call.Args[0].(*ql.Call)
	if !ok {
		return fmt.Errorf("must use aggregate function with %s", call.Name)
	}
	if c.interval.DurationNs == 0 {
		return fmt.Errorf("%s aggregate requires a GROUP BY interval", call.Name)
	}
	return c.checkNested(of)
}

func (c *compiler) checkIntegral(call *ql.Call) error {
	if n := len(call.Args); n < 1 || n > 2 {
		return fmt.Errorf("invalid number of arguments for integral, expected at least 1 but no more than 2, got %d", n)
	}
	if err := checkUnit(call); err != nil {
		return err
	}
	c.selectorsOnly = false
	return c.checkSymbol("integral", call.Args[0])
}

func (c *compiler) checkTopBottom(call *ql.Call) error {
	if c.topOrBottom != "" {
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.topOrBottom)
	}
	if n := len(call.Args); n < 2 {
		return fmt.Errorf("invalid number of arguments for %s, expected at least 2, got %d", call.Name, n)
	}
	last := call.Args[len(call.Args)-1]
	limit, ok := last.(*ql.IntegerLiteral)
	switch {
	case !ok:
		return fmt.Errorf("expected integer as last argument in %s(), found %s", call.Name, last)
	case limit.Val <= 0:
		return fmt.Errorf("limit (%d) in %s function must be at least 1", limit.Val, call.Name)
	case c.limit > 0 && limit.Val > int64(c.limit):
		return fmt.Errorf("limit (%d) in %s function can not be larger than the LIMIT (%d) in the select statement", limit.Val, call.Name, c.limit)
	case limit.Val > selectedMax:
		return tooMany(call, limit.Val)
	}
	if _, ok := call.Args[0].(*ql.VarRef); !ok {
		return fmt.Errorf("expected first argument to be a field in %s(), found %s", call.Name, call.Args[0])
	}
	for _, argument := range call.Args[1 : len(call.Args)-1] {
		if _, ok := argument.(*ql.VarRef); !ok {
			return fmt.Errorf("only fields or tags are allowed in %s(), found %s", call.Name, argument)
		}
		c.auxiliary = true
	}
	c.topOrBottom = call.Name
	return nil
}
