package influxql

import (
	"fmt"
	"math"
	"regexp"

	ql "github.com/influxdata/influxql"
)

// evaluator computes an expression over the values of its symbols.
type evaluator func(symbols []value) value

// symbolOf maps a call or a variable to the place of its value.
type symbolOf func(ql.Expr) (place int, ok bool)

// newEvaluator compiles an expression. Error: an operator or a literal that has no meaning here.
func newEvaluator(expr ql.Expr, symbol symbolOf) (evaluator, error) {
	if place, ok := symbol(expr); ok {
		return func(symbols []value) value { return symbols[place] }, nil
	}
	constant := func(v value) (evaluator, error) { return func([]value) value { return v }, nil }
	switch expr := expr.(type) {
	case *ql.ParenExpr:
		return newEvaluator(expr.Expr, symbol)
	case *ql.NumberLiteral:
		return constant(floatValue(expr.Val))
	case *ql.IntegerLiteral:
		return constant(integerValue(float64(expr.Val)))
	case *ql.UnsignedLiteral:
		return constant(integerValue(float64(expr.Val)))
	case *ql.StringLiteral:
		return constant(stringValue(expr.Val))
	case *ql.BooleanLiteral:
		return constant(booleanValue(expr.Val))
	case *ql.DurationLiteral:
		return constant(integerValue(float64(expr.Val)))
	case *ql.NilLiteral, *ql.VarRef:
		return constant(value{})
	case *ql.Call:
		return newMathEvaluator(expr, symbol)
	case *ql.BinaryExpr:
		return newBinaryEvaluator(expr, symbol)
	}
	return nil, fmt.Errorf("unsupported expression: %s", expr)
}

func newBinaryEvaluator(expr *ql.BinaryExpr, symbol symbolOf) (evaluator, error) {
	left, err := newEvaluator(expr.LHS, symbol)
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
	right, err := newEvaluator(expr.RHS, symbol)
	if err != nil {
		return nil, err
	}
	op := expr.Op
	switch op {
	case ql.AND:
		return func(s []value) value { return booleanValue(left(s).isTrue() && right(s).isTrue()) }, nil
	case ql.OR:
		return func(s []value) value { return booleanValue(left(s).isTrue() || right(s).isTrue()) }, nil
	}
	return func(s []value) value { return binary(op, left(s), right(s)) }, nil
}

func regexEvaluator(left evaluator, pattern *regexp.Regexp, want bool) evaluator {
	return func(s []value) value {
		v := left(s)
		if v.kind != kindString {
			return value{}
		}
		return booleanValue(pattern.MatchString(v.text) == want)
	}
}

// binary applies an operator. As in InfluxDB, values that cannot be compared are not
// equal and not unequal, arithmetic with null is null, and a number divided by zero is zero.
func binary(op ql.Token, a, b value) value {
	switch {
	case a.isNumber() && b.isNumber():
		if v, ok := compareNumbers(op, a.number, b.number); ok {
			return booleanValue(v)
		}
		return arithmetic(op, a, b)
	case a.kind == kindString && b.kind == kindString:
		switch op {
		case ql.EQ:
			return booleanValue(a.text == b.text)
		case ql.NEQ:
			return booleanValue(a.text != b.text)
		}
	case a.kind == kindBoolean || b.kind == kindBoolean:
		if v, ok := logic(op, a, b); ok {
			return v
		}
	}
	switch op {
	case ql.EQ, ql.NEQ, ql.LT, ql.LTE, ql.GT, ql.GTE:
		return booleanValue(false)
	}
	return value{}
}

// logic compares and joins booleans; null counts as false.
func logic(op ql.Token, a, b value) (value, bool) {
	fits := (a.kind == kindBoolean || a.kind == kindNull) && (b.kind == kindBoolean || b.kind == kindNull)
	x, y := a.isTrue(), b.isTrue()
	switch op {
	case ql.EQ:
		return booleanValue(fits && x == y), true
	case ql.NEQ:
		return booleanValue(fits && x != y), true
	case ql.BITWISE_AND:
		return booleanValue(fits && x && y), true
	case ql.BITWISE_OR:
		return booleanValue(fits && (x || y)), true
	case ql.BITWISE_XOR:
		return booleanValue(fits && x != y), true
	}
	return value{}, false
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

func arithmetic(op ql.Token, a, b value) value {
	whole := a.kind == kindInteger && b.kind == kindInteger
	of := kindFloat
	if whole {
		of = kindInteger
	}
	x, y := a.number, b.number
	switch op {
	case ql.ADD:
		return numberValue(x+y, of)
	case ql.SUB:
		return numberValue(x-y, of)
	case ql.MUL:
		return numberValue(x*y, of)
	case ql.DIV:
		if y == 0 {
			return floatValue(0)
		}
		return floatValue(x / y)
	case ql.MOD:
		if whole && y == 0 {
			return integerValue(0)
		}
		return numberValue(math.Mod(x, y), of)
	}
	if !whole {
		return value{}
	}
	switch op {
	case ql.BITWISE_AND:
		return integerValue(float64(int64(x) & int64(y)))
	case ql.BITWISE_OR:
		return integerValue(float64(int64(x) | int64(y)))
	case ql.BITWISE_XOR:
		return integerValue(float64(int64(x) ^ int64(y)))
	}
	return value{}
}
