package opentsdb

import "math"

// formulaBlock is the number of points that are computed at once.
const formulaBlock = 512

// evaluation computes a formula for many points at once. It is used by one goroutine.
type evaluation struct {
	formula   *formula
	variables [][]float64 // by variable, the points of this block
	registers [][]float64
	size      int
}

func newEvaluation(f *formula) *evaluation {
	e := &evaluation{formula: f, variables: make([][]float64, len(f.variables)), registers: make([][]float64, f.registers)}
	for i := range e.variables {
		e.variables[i] = make([]float64, formulaBlock)
	}
	for i := range e.registers {
		e.registers[i] = make([]float64, formulaBlock)
	}
	return e
}

// bytes gives the memory that an evaluation takes.
func (f *formula) bytes() int64 { return int64(8 * formulaBlock * (len(f.variables) + f.registers)) }

// registers gives the number of vectors that are needed at one time for a node: operands
// are computed from left to right, each above what waits.
func (n *node) registers() int {
	need := 1
	for i, operand := range []*node{n.left, n.right, n.otherwise} {
		if operand != nil {
			need = max(need, i+operand.registers())
		}
	}
	return need
}

// compute gives the formula's value for the first size points of the variables. The
// result holds until the next call.
func (e *evaluation) compute(size int) []float64 {
	e.size = size
	return e.node(e.formula.root, 0)
}

// node computes into the register at, unless the node is a variable.
func (e *evaluation) node(n *node, at int) []float64 {
	switch n.op {
	case opVariable:
		return e.variables[n.variable][:e.size]
	case opNumber:
		to := e.registers[at][:e.size]
		for i := range to {
			to[i] = n.value
		}
		return to
	}
	left := e.node(n.left, at)
	to := e.registers[at][:e.size]
	switch n.op {
	case opNegate:
		for i, v := range left {
			to[i] = -v
		}
		return to
	case opNot:
		for i, v := range left {
			to[i] = number(!truth(v))
		}
		return to
	}
	right := e.node(n.right, at+1)
	if n.op == opCondition {
		otherwise := e.node(n.otherwise, at+2)
		for i, v := range left {
			if truth(v) {
				to[i] = right[i]
			} else {
				to[i] = otherwise[i]
			}
		}
		return to
	}
	n.combine(to, left, right)
	return to
}

// combine computes an operation of two operands. To may be the left one.
func (n *node) combine(to, left, right []float64) {
	right = right[:len(left)]
	switch n.op {
	case opAdd:
		for i, v := range left {
			to[i] = v + right[i]
		}
	case opSubtract:
		for i, v := range left {
			to[i] = v - right[i]
		}
	case opMultiply:
		for i, v := range left {
			to[i] = v * right[i]
		}
	case opDivide:
		for i, v := range left {
			to[i] = divide(v, right[i])
			if n.kind == kindWhole {
				to[i] = math.Trunc(to[i])
			}
		}
	case opModulo:
		for i, v := range left {
			to[i] = modulo(v, right[i])
		}
	case opEqual, opNotEqual:
		asTruth := n.left.kind == kindTruth || n.right.kind == kindTruth
		for i, v := range left {
			same := compareNumbers(v, right[i]) == 0
			if asTruth {
				same = truth(v) == truth(right[i])
			}
			to[i] = number(same == (n.op == opEqual))
		}
	case opLess:
		for i, v := range left {
			to[i] = number(compareNumbers(v, right[i]) < 0)
		}
	case opLessOrEqual:
		for i, v := range left {
			to[i] = number(compareNumbers(v, right[i]) <= 0)
		}
	case opGreater:
		for i, v := range left {
			to[i] = number(compareNumbers(v, right[i]) > 0)
		}
	case opGreaterOrEqual:
		for i, v := range left {
			to[i] = number(compareNumbers(v, right[i]) >= 0)
		}
	case opAnd:
		for i, v := range left {
			to[i] = number(truth(v) && truth(right[i]))
		}
	case opElse:
		for i, v := range left {
			if to[i] = v; !truth(v) {
				to[i] = right[i]
			}
		}
	case opOr:
		for i, v := range left {
			to[i] = number(truth(v) || truth(right[i]))
		}
	}
}

// divide and modulo by 0 give 0: JEXL is lenient, and OpenTSDB's tests want it so
// (TestExpressionIterator.aDivideByZeroWithTwoSeries).
func divide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func modulo(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return math.Mod(a, b)
}

// compareNumbers compares as JEXL does: NaN is equal to itself and below all numbers.
func compareNumbers(a, b float64) int {
	switch {
	case a < b, a != a && b == b:
		return -1
	case a > b, a == a && b != b:
		return 1
	}
	return 0
}

func truth(v float64) bool { return v != 0 && v == v }

func number(truth bool) float64 {
	if truth {
		return 1
	}
	return 0
}
