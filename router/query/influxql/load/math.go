package load

import (
	"fmt"
	"math"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// MathArguments returns the number of arguments of a function of single values.
func MathArguments(name string) (n int, ok bool) {
	switch name {
	case "abs", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "ln", "log2", "log10", "sqrt", "floor", "ceil", "round":
		return 1, true
	case "atan2", "pow", "log":
		return 2, true
	}
	return 0, false
}

// IsMath reports whether a call is a function of single values.
func IsMath(call *ql.Call) bool {
	_, ok := MathArguments(call.Name)
	return ok
}

func newMathEvaluator(call *ql.Call, symbol symbolOf) (Evaluator, error) {
	n, ok := MathArguments(call.Name)
	if !ok {
		return nil, fmt.Errorf("undefined function %s()", call.Name)
	}
	if len(call.Args) != n {
		return nil, fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", call.Name, n, len(call.Args))
	}
	arguments := make([]Evaluator, n)
	for i, argument := range call.Args {
		e, err := NewEvaluator(argument, symbol)
		if err != nil {
			return nil, err
		}
		arguments[i] = e
	}
	if n == 1 {
		of, x := mathOne(call.Name), arguments[0]
		keeps := call.Name == "abs" || call.Name == "floor" || call.Name == "ceil" || call.Name == "round"
		return func(s []answer.Value) answer.Value {
			v := x(s)
			if !v.IsNumber() {
				return answer.Value{}
			}
			if keeps {
				return answer.Number(of(v.Number), v.Kind)
			}
			return answer.Float(of(v.Number))
		}, nil
	}
	of, x, y := mathTwo(call.Name), arguments[0], arguments[1]
	return func(s []answer.Value) answer.Value {
		a, b := x(s), y(s)
		if !a.IsNumber() || !b.IsNumber() {
			return answer.Value{}
		}
		return answer.Float(of(a.Number, b.Number))
	}, nil
}

func mathOne(name string) func(float64) float64 {
	switch name {
	case "abs":
		return math.Abs
	case "sin":
		return math.Sin
	case "cos":
		return math.Cos
	case "tan":
		return math.Tan
	case "asin":
		return math.Asin
	case "acos":
		return math.Acos
	case "atan":
		return math.Atan
	case "exp":
		return math.Exp
	case "ln":
		return math.Log
	case "log2":
		return math.Log2
	case "log10":
		return math.Log10
	case "sqrt":
		return math.Sqrt
	case "floor":
		return math.Floor
	case "ceil":
		return math.Ceil
	}
	return math.Round // the last one; it rounds half away from zero
}

func mathTwo(name string) func(x, y float64) float64 {
	switch name {
	case "atan2":
		return math.Atan2
	case "pow":
		return math.Pow
	}
	return func(x, base float64) float64 { return math.Log(x) / math.Log(base) }
}
