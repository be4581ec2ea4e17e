package promql

import (
	"fmt"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// tree is a node of an expression in the form of /api/v1/parse_query, which Prometheus
// makes in web/api/v1/translate_ast.go.
type tree = map[string]any

// treeOf returns the form of an expression; nil for a part that is not there.
func treeOf(expr parser.Expr) (any, error) {
	if isNil(expr) {
		return nil, nil
	}
	t := treeBuilder{}
	form := t.node(expr)
	return form, t.err
}

// treeBuilder keeps the first error.
type treeBuilder struct{ err error }

func (t *treeBuilder) node(expr parser.Expr) any {
	if isNil(expr) {
		return nil
	}
	switch n := expr.(type) {
	case *parser.AggregateExpr:
		return tree{"type": "aggregation", "op": n.Op.String(), "expr": t.node(n.Expr), "param": t.node(n.Param),
			"grouping": listOf(n.Grouping), "without": n.Without}
	case *parser.BinaryExpr:
		return tree{"type": "binaryExpr", "op": n.Op.String(), "lhs": t.node(n.LHS), "rhs": t.node(n.RHS), "matching": matchingOf(n.VectorMatching), "bool": n.ReturnBool}
	case *parser.Call:
		args := []any{}
		for _, arg := range n.Args {
			args = append(args, t.node(arg))
		}
		return tree{"type": "call", "args": args,
			"func": tree{"name": n.Func.Name, "argTypes": n.Func.ArgTypes, "variadic": n.Func.Variadic, "returnType": n.Func.ReturnType}}
	case *parser.MatrixSelector:
		vector, ok := n.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return t.unknown(n.VectorSelector)
		}
		form := t.selector("matrixSelector", vector)
		form["range"], form["rangeExpr"] = n.Range.Milliseconds(), t.duration(n.RangeExpr)
		return form
	case *parser.VectorSelector:
		return t.selector("vectorSelector", n)
	case *parser.SubqueryExpr:
		return tree{"type": "subquery", "expr": t.node(n.Expr), "range": n.Range.Milliseconds(), "rangeExpr": t.duration(n.RangeExpr),
			"offset": n.OriginalOffset.Milliseconds(), "offsetExpr": t.duration(n.OriginalOffsetExpr),
			"step": n.Step.Milliseconds(), "stepExpr": t.duration(n.StepExpr), "timestamp": n.Timestamp, "startOrEnd": startOrEnd(n.StartOrEnd)}
	case *parser.DurationExpr:
		return t.duration(n)
	case *parser.NumberLiteral:
		return tree{"type": "numberLiteral", "val": strconv.FormatFloat(n.Val, 'f', -1, 64)}
	case *parser.StringLiteral:
		return tree{"type": "stringLiteral", "val": n.Val}
	case *parser.ParenExpr:
		return tree{"type": "parenExpr", "expr": t.node(n.Expr)}
	case *parser.UnaryExpr:
		return tree{"type": "unaryExpr", "op": n.Op.String(), "expr": t.node(n.Expr)}
	}
	return t.unknown(expr)
}

func (t *treeBuilder) unknown(expr parser.Expr) any {
	t.err = fmt.Errorf("an expression of type %T", expr)
	return nil
}

func (t *treeBuilder) selector(kind string, n *parser.VectorSelector) tree {
	return tree{"type": kind, "name": n.Name, "offset": n.OriginalOffset.Milliseconds(), "offsetExpr": t.duration(n.OriginalOffsetExpr),
		"matchers": matchersOf(n.LabelMatchers), "timestamp": n.Timestamp, "startOrEnd": startOrEnd(n.StartOrEnd),
		"anchored": n.Anchored, "smoothed": n.Smoothed}
}

func (t *treeBuilder) duration(expr parser.Expr) any {
	if isNil(expr) {
		return nil
	}
	switch n := expr.(type) {
	case *parser.DurationExpr:
		return tree{"type": "durationExpr", "op": n.Op.String(), "lhs": t.duration(n.LHS), "rhs": t.duration(n.RHS), "wrapped": n.Wrapped}
	case *parser.NumberLiteral:
		return tree{"type": "numberLiteral", "val": strconv.FormatFloat(n.Val, 'f', -1, 64), "duration": n.Duration}
	}
	return t.node(expr)
}

func matchingOf(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return tree{"card": m.Card.String(), "labels": listOf(m.MatchingLabels), "on": m.On, "include": listOf(m.Include),
		"fillValues": map[string]*float64{"lhs": m.FillValues.LHS, "rhs": m.FillValues.RHS}}
}

// listOf makes an empty list of none.
func listOf(list []string) []string { return append([]string{}, list...) }

func matchersOf(matchers []*labels.Matcher) []tree {
	forms := []tree{}
	for _, m := range matchers {
		forms = append(forms, tree{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return forms
}

func startOrEnd(item parser.ItemType) any {
	if item == 0 {
		return nil
	}
	return item.String()
}

// isNil reports whether an optional part of an expression is not there.
func isNil(expr parser.Expr) bool {
	switch n := expr.(type) {
	case nil:
		return true
	case *parser.DurationExpr:
		return n == nil
	case *parser.NumberLiteral:
		return n == nil
	}
	return false
}
