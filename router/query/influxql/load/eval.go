package load

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// Evaluator computes an expression over the values of its symbols.
type Evaluator func(symbols []answer.Value) answer.Value

// symbolOf maps a call or a variable to the place of its value.
type symbolOf func(ql.Expr) (place int, ok bool)

// Variables maps each variable to the place of its name in names, to which it appends those that are not there yet.
func Variables(names *[]string) func(ql.Expr) (place int, ok bool) {
	return func(expr ql.Expr) (int, bool) {
		ref, ok := expr.(*ql.VarRef)
		if !ok {
			return 0, false
		}
		at := slices.Index(*names, ref.Val)
		if at < 0 {
			at = len(*names)
			*names = append(*names, ref.Val)
		}
		return at, true
	}
}

// NewEvaluator compiles an expression. Error: an operator or a literal that has no meaning here.
func NewEvaluator(expr ql.Expr, symbol symbolOf) (Evaluator, error) {
	if place, ok := symbol(expr); ok {
		return func(symbols []answer.Value) answer.Value { return symbols[place] }, nil
	}
	constant := func(v answer.Value) (Evaluator, error) { return func([]answer.Value) answer.Value { return v }, nil }
	switch expr := expr.(type) {
	case *ql.ParenExpr:
		return NewEvaluator(expr.Expr, symbol)
	case *ql.NumberLiteral:
		return constant(answer.Float(expr.Val))
	case *ql.IntegerLiteral:
		return constant(answer.Integer(float64(expr.Val)))
	case *ql.UnsignedLiteral:
		return constant(answer.Integer(float64(expr.Val)))
	case *ql.StringLiteral:
		return constant(answer.String(expr.Val))
	case *ql.BooleanLiteral:
		return constant(answer.Boolean(expr.Val))
	case *ql.DurationLiteral:
		return constant(answer.Integer(float64(expr.Val)))
	case *ql.NilLiteral, *ql.VarRef:
		return constant(answer.Value{})
	case *ql.Call:
		return newMathEvaluator(expr, symbol)
	case *ql.BinaryExpr:
		return newBinaryEvaluator(expr, symbol)
	}
	return nil, fmt.Errorf("unsupported expression: %s", expr)
}

func newBinaryEvaluator(expr *ql.BinaryExpr, symbol symbolOf) (Evaluator, error) {
	left, err := NewEvaluator(expr.LHS, symbol)
	if err != nil {
		return nil, err
	}
	if expr.Op == ql.EQREGEX || expr.Op == ql.NEQREGEX {
		pattern, ok := expr.RHS.(*ql.RegexLiteral)
		if !ok {
			return nil, fmt.Errorf("a regular expression must stand on the right of %s", expr.Op)
		}
		return regexEvaluator(left, pattern.Val, expr.Op == ql.EQREGEX), nil
	}
	right, err := NewEvaluator(expr.RHS, symbol)
	if err != nil {
		return nil, err
	}
	op := expr.Op
	switch op {
	case ql.AND:
		return func(s []answer.Value) answer.Value { return answer.Boolean(left(s).IsTrue() && right(s).IsTrue()) }, nil
	case ql.OR:
		return func(s []answer.Value) answer.Value { return answer.Boolean(left(s).IsTrue() || right(s).IsTrue()) }, nil
	}
	return func(s []answer.Value) answer.Value { return binary(op, left(s), right(s)) }, nil
}

func regexEvaluator(left Evaluator, pattern *regexp.Regexp, want bool) Evaluator {
	return func(s []answer.Value) answer.Value {
		v := left(s)
		if v.Kind != answer.KindString {
			return answer.Value{}
		}
		return answer.Boolean(pattern.MatchString(v.Text) == want)
	}
}

// binary applies an operator. As in InfluxDB, values that cannot be compared are not
// equal and not unequal, arithmetic with null is null, and a number divided by zero is zero.
func binary(op ql.Token, a, b answer.Value) answer.Value {
	switch {
	case a.IsNumber() && b.IsNumber():
		if v, ok := compareNumbers(op, a.Number, b.Number); ok {
			return answer.Boolean(v)
		}
		return arithmetic(op, a, b)
	case a.Kind == answer.KindString && b.Kind == answer.KindString:
		switch op {
		case ql.EQ:
			return answer.Boolean(a.Text == b.Text)
		case ql.NEQ:
			return answer.Boolean(a.Text != b.Text)
		}
	case a.Kind == answer.KindBoolean || b.Kind == answer.KindBoolean:
		if v, ok := logic(op, a, b); ok {
			return v
		}
	}
	switch op {
	case ql.EQ, ql.NEQ, ql.LT, ql.LTE, ql.GT, ql.GTE:
		return answer.Boolean(false)
	}
	return answer.Value{}
}

// logic compares and joins booleans; null counts as false.
func logic(op ql.Token, a, b answer.Value) (answer.Value, bool) {
	fits := (a.Kind == answer.KindBoolean || a.Kind == answer.KindNull) && (b.Kind == answer.KindBoolean || b.Kind == answer.KindNull)
	x, y := a.IsTrue(), b.IsTrue()
	switch op {
	case ql.EQ:
		return answer.Boolean(fits && x == y), true
	case ql.NEQ:
		return answer.Boolean(fits && x != y), true
	case ql.BITWISE_AND:
		return answer.Boolean(fits && x && y), true
	case ql.BITWISE_OR:
		return answer.Boolean(fits && (x || y)), true
	case ql.BITWISE_XOR:
		return answer.Boolean(fits && x != y), true
	}
	return answer.Value{}, false
}

func compareNumbers(op ql.Token, a, b float64) (result, isComparison bool) {
	switch op {
	case ql.EQ:
		return a == b, true
	case ql.NEQ:
		return a != b, true
	case ql.LT:
		return a < b, true
	case ql.LTE:
		return a <= b, true
	case ql.GT:
		return a > b, true
	case ql.GTE:
		return a >= b, true
	}
	return false, false
}

func arithmetic(op ql.Token, a, b answer.Value) answer.Value {
	whole := a.Kind == answer.KindInteger && b.Kind == answer.KindInteger
	of := answer.KindFloat
	if whole {
		of = answer.KindInteger
	}
	x, y := a.Number, b.Number
	switch op {
	case ql.ADD:
		return answer.Number(x+y, of)
	case ql.SUB:
		return answer.Number(x-y, of)
	case ql.MUL:
		return answer.Number(x*y, of)
	case ql.DIV:
		if y == 0 {
			return answer.Float(0)
		}
		return answer.Float(x / y)
	case ql.MOD:
		if whole && y == 0 {
			return answer.Integer(0)
		}
		return answer.Number(math.Mod(x, y), of)
	}
	if !whole {
		return answer.Value{}
	}
	switch op {
	case ql.BITWISE_AND:
		return answer.Integer(float64(int64(x) & int64(y)))
	case ql.BITWISE_OR:
		return answer.Integer(float64(int64(x) | int64(y)))
	case ql.BITWISE_XOR:
		return answer.Integer(float64(int64(x) ^ int64(y)))
	}
	return answer.Value{}
}
