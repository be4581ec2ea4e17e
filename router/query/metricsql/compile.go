package metricsql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Compile makes a program of a text that Measure has let pass, to be evaluated at steps. Errors: *UnsupportedError, and those of the
// parser.
func Compile(text string, steps Steps) (*Program, error) {
	tree, err := metricsql.Parse(text)
	if err != nil {
		return nil, err
	}
	c := compiler{steps: steps}
	p, err := c.expr(tree)
	if err != nil {
		return nil, err
	}
	return &Program{Text: p.text, nodes: c.nodes}, nil
}

type compiler struct {
	steps      Steps
	nodes      []node
	subqueries int // around what is compiled
}

// priorityAll is that of what needs no parentheses.
const priorityAll = math.MaxInt

// part is PromQL of a part of the expression.
type part struct {
	text     string
	priority int // of its operator
}

func partOf(format string, values ...any) part {
	return part{fmt.Sprintf(format, values...), priorityAll}
}

// within returns the text with parentheses where its operator binds less.
func (p part) within(priority int) string {
	if p.priority < priority {
		return "(" + p.text + ")"
	}
	return p.text
}

// add takes a node and returns the selector that stands for it.
func (c *compiler) add(n node) (part, error) {
	if c.subqueries > 0 {
		return part{}, unsupported("what only MetricsQL has, within a subquery,")
	}
	c.nodes = append(c.nodes, n)
	return part{Placeholder(len(c.nodes) - 1), priorityAll}, nil
}

func (c *compiler) expr(e metricsql.Expr) (part, error) {
	switch e := e.(type) {
	case *metricsql.NumberExpr:
		return number(e.N), nil
	case *metricsql.StringExpr:
		return part{strconv.Quote(e.S), priorityAll}, nil
	case *metricsql.MetricExpr:
		text, err := selector(e)
		return part{text, priorityAll}, err
	case *metricsql.RollupExpr:
		if e.Window != nil { // as VictoriaMetrics reads a window without a function
			return c.call(&metricsql.FuncExpr{Name: "default_rollup", Args: []metricsql.Expr{e}})
		}
		return c.ranged(e)
	case *metricsql.BinaryOpExpr:
		return c.operator(e)
	case *metricsql.AggrFuncExpr:
		return c.aggregate(e)
	case *metricsql.FuncExpr:
		return c.call(e)
	}
	return part{}, unsupported("%s", e.AppendString(nil))
}

func number(v float64) part {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if v < 0 {
		return part{"(" + text + ")", priorityAll}
	}
	return part{strings.TrimPrefix(text, "+"), priorityAll}
}

// selector returns an instant selector.
func selector(e *metricsql.MetricExpr) (string, error) {
	if len(e.LabelFilterss) > 1 {
		return "", unsupported("or between the filters of a selector")
	}
	var filters []string
	for _, list := range e.LabelFilterss {
		for _, f := range list {
			if err := checkLabelName(f.Label); err != nil {
				return "", err
			}
			operator := "="
			switch {
			case f.IsRegexp && f.IsNegative:
				operator = "!~"
			case f.IsRegexp:
				operator = "=~"
			case f.IsNegative:
				operator = "!="
			}
			filters = append(filters, labelName(f.Label)+operator+strconv.Quote(f.Value))
		}
	}
	return "{" + strings.Join(filters, ",") + "}", nil
}

func labelName(name string) string {
	if model.LegacyValidation.IsValidLabelName(name) {
		return name
	}
	return strconv.Quote(name)
}

// duration returns a duration in PromQL's words.
func (c *compiler) duration(d *metricsql.DurationExpr) (text string, ms int64, err error) {
	ms = d.Duration(c.steps.StepMs)
	const msMax = 1000 * 365 * 24 * 3600_000
	if ms < -msMax || ms > msMax {
		return "", 0, fmt.Errorf("duration %s is longer than a thousand years", d.AppendString(nil))
	}
	return strconv.FormatInt(ms, 10) + "ms", ms, nil
}

// ranged compiles what has a window, an offset or a fixed time.
func (c *compiler) ranged(e *metricsql.RollupExpr) (part, error) {
	_, isSelector := e.Expr.(*metricsql.MetricExpr)
	if !isSelector && e.Window == nil && (e.Offset != nil || e.At != nil) {
		return part{}, unsupported("an offset or @ of what is no selector")
	}
	isSubquery := e.Window != nil && (!isSelector || e.ForSubquery())
	if isSubquery {
		c.subqueries++
		defer func() { c.subqueries-- }()
	}
	inner, err := c.expr(e.Expr)
	if err != nil {
		return part{}, err
	}
	text := inner.within(priorityAll)
	if e.Window != nil {
		width, ms, err := c.duration(e.Window)
		if err != nil {
			return part{}, err
		}
		if ms <= 0 {
			return part{}, fmt.Errorf("window %s: it must be longer than 0", e.Window.AppendString(nil))
		}
		every := ""
		if isSubquery {
			every = ":"
		}
		if e.Step != nil {
			step, _, err := c.duration(e.Step)
			if err != nil {
				return part{}, err
			}
			every += step
		}
		text += "[" + width + every + "]"
	}
	moved, err := c.moved(e)
	return part{text + moved, priorityAll}, err
}

// moved returns the modifiers that fix or move the time.
func (c *compiler) moved(e *metricsql.RollupExpr) (text string, err error) {
	if e.Offset != nil {
		by, _, err := c.duration(e.Offset)
		if err != nil {
			return "", err
		}
		text = " offset " + by
	}
	switch at := e.At.(type) {
	case nil:
	case *metricsql.NumberExpr:
		text += " @ " + strconv.FormatFloat(at.N, 'f', -1, 64)
	case *metricsql.FuncExpr:
		if name := strings.ToLower(at.Name); len(at.Args) == 0 && (name == "start" || name == "end") {
			return text + " @ " + name + "()", nil
		}
		return "", unsupported("@ with an expression")
	default:
		return "", unsupported("@ with an expression")
	}
	return text, nil
}

//nolint:gochecknoglobals // a constant table
var priorities = map[string]int{
	"or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": 6,
}

func (c *compiler) operator(e *metricsql.BinaryOpExpr) (part, error) {
	switch {
	case e.KeepMetricNames:
		return part{}, unsupported("keep_metric_names of an operator")
	case e.JoinModifierPrefix != nil:
		return part{}, unsupported("a prefix of group_left or group_right")
	case e.FillLeft != nil || e.FillRight != nil:
		return part{}, unsupported("fill")
	}
	left, err := c.expr(e.Left)
	if err != nil {
		return part{}, err
	}
	right, err := c.expr(e.Right)
	if err != nil {
		return part{}, err
	}
	operator := strings.ToLower(e.Op)
	on, err := modifier(&e.GroupModifier)
	if err != nil {
		return part{}, err
	}
	join, err := modifier(&e.JoinModifier)
	if err != nil {
		return part{}, err
	}
	priority, known := priorities[operator]
	if !known {
		if join != "" {
			return part{}, unsupported("%s with %s", operator, e.JoinModifier.Op)
		}
		return c.add(&pair{operator: operator, left: left.text, right: right.text, on: grouping{strings.EqualFold(e.GroupModifier.Op, "on"), e.GroupModifier.Args}})
	}
	if e.Bool {
		operator += " bool"
	}
	leftAt, rightAt := priority, priority+1
	if operator == "^" {
		leftAt, rightAt = priority+1, priority
	}
	return part{left.within(leftAt) + " " + operator + on + join + " " + right.within(rightAt), priority}, nil
}

// modifier returns by, without, on, ignoring, group_left or group_right; empty: there is none.
func modifier(m *metricsql.ModifierExpr) (string, error) {
	if m.Op == "" {
		return "", nil
	}
	names := make([]string, len(m.Args))
	for i, name := range m.Args {
		if name == "*" {
			return "", unsupported("%s (*)", m.Op)
		}
		if err := checkLabelName(name); err != nil {
			return "", err
		}
		names[i] = labelName(name)
	}
	return " " + strings.ToLower(m.Op) + " (" + strings.Join(names, ", ") + ")", nil
}

//nolint:gochecknoglobals // constant tables
var aggregators = []string{"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "count_values", "topk", "bottomk", "quantile", "limitk"}

func (c *compiler) aggregate(e *metricsql.AggrFuncExpr) (part, error) {
	name := strings.ToLower(e.Name)
	if e.Limit > 0 {
		return part{}, unsupported("limit of an aggregation")
	}
	grouped, err := modifier(&e.Modifier)
	if err != nil {
		return part{}, err
	}
	args, err := c.args(e.Args, nil)
	if err != nil {
		return part{}, err
	}
	if of, bottom, ok := rankingOf(name); ok {
		return c.ranking(e, args, of, bottom)
	}
	if name == "median" && len(args) == 1 {
		name, args = "quantile", []string{"0.5", args[0]}
	}
	if !slices.Contains(aggregators, name) {
		return part{}, unsupported("MetricsQL's function %s", name)
	}
	return partOf("%s%s (%s)", name, grouped, strings.Join(args, ", ")), nil
}

// rankingOf returns what topk_… and bottomk_… compare.
func rankingOf(name string) (of func([]float64) float64, bottom, ok bool) {
	by, top := strings.CutPrefix(name, "topk_")
	if !top {
		by, bottom = strings.CutPrefix(name, "bottomk_")
	}
	of, known := rankings[by]
	return of, bottom, known && (top || bottom)
}

func (c *compiler) ranking(e *metricsql.AggrFuncExpr, args []string, of func([]float64) float64, bottom bool) (part, error) {
	if len(args) != 2 {
		return part{}, unsupported("%s with other than 2 arguments", e.Name)
	}
	k, ok := e.Args[0].(*metricsql.NumberExpr)
	if !ok || isNaN(k.N) {
		return part{}, unsupported("%s of other than a number and an expression", e.Name)
	}
	grouped := grouping{by: !strings.EqualFold(e.Modifier.Op, "without"), names: e.Modifier.Args}
	return c.add(&ranking{arg: args[1], k: int(min(max(k.N, 0), math.MaxInt32)), of: of, bottom: bottom, grouped: grouped})
}

// args compiles arguments of a function of PromQL, or of another one where that is nil.
func (c *compiler) args(list []metricsql.Expr, of *parser.Function) ([]string, error) {
	texts := make([]string, len(list))
	for i, arg := range list {
		compile := c.expr
		if window, ok := arg.(*metricsql.RollupExpr); ok && of != nil && i < len(of.ArgTypes) && of.ArgTypes[i] == parser.ValueTypeMatrix {
			compile = func(metricsql.Expr) (part, error) { return c.ranged(window) }
		}
		p, err := compile(arg)
		if err != nil {
			return nil, err
		}
		texts[i] = p.text
	}
	return texts, nil
}

func (c *compiler) call(e *metricsql.FuncExpr) (part, error) {
	name := strings.ToLower(e.Name)
	if r, err := c.rollupOf(name, e); err != nil || r != nil {
		if err != nil {
			return part{}, err
		}
		return c.add(r)
	}
	if e.KeepMetricNames {
		return part{}, unsupported("keep_metric_names of %s", name)
	}
	args, err := c.args(e.Args, parser.Functions[name])
	if err != nil {
		return part{}, err
	}
	if len(args) == 0 {
		switch name {
		case "start":
			return number(float64(c.steps.FirstMs) / msPerSecond), nil
		case "end":
			return number(float64(c.steps.LastMs) / msPerSecond), nil
		case "step":
			return number(float64(c.steps.StepMs) / msPerSecond), nil
		}
	}
	if n, err := c.transformOf(name, e, args); err != nil || n != nil {
		if err != nil {
			return part{}, err
		}
		return c.add(n)
	}
	if _, ok := parser.Functions[name]; !ok {
		return part{}, unsupported("MetricsQL's function %s", name)
	}
	return partOf("%s(%s)", name, strings.Join(args, ", ")), nil
}

// transformOf returns the node of a function of rows; nil: it is none.
func (c *compiler) transformOf(name string, e *metricsql.FuncExpr, args []string) (node, error) {
	if name == "" || name == "union" {
		return &union{args}, nil
	}
	if t, ok := transforms[name]; ok {
		if len(args) != 1 {
			return nil, fmt.Errorf("%s wants 1 argument, not %d", name, len(args))
		}
		return &transform{args[0], t.dropsName, t.apply}, nil
	}
	if of, ok := numbered[name]; ok {
		if len(args) != 2 {
			return nil, fmt.Errorf("%s wants 2 arguments, not %d", name, len(args))
		}
		n, ok := e.Args[0].(*metricsql.NumberExpr)
		if !ok {
			return nil, unsupported("%s of other than a number and an expression", name)
		}
		t := of(n.N)
		return &transform{args[1], t.dropsName, t.apply}, nil
	}
	change, ok := labelChanges[name]
	if !ok {
		return nil, nil
	}
	texts, err := textsOf(name, e.Args)
	if err != nil {
		return nil, err
	}
	return &transform{arg: args[0], apply: relabelled(change(texts))}, nil
}

// textsOf returns the arguments behind the first one of a function of labels.
func textsOf(name string, args []metricsql.Expr) (texts []string, err error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s wants an expression", name)
	}
	for _, arg := range args[1:] {
		text, ok := arg.(*metricsql.StringExpr)
		if !ok {
			return nil, fmt.Errorf("%s wants texts behind its first argument", name)
		}
		if err := checkLabelName(text.S); err != nil {
			return nil, err
		}
		texts = append(texts, text.S)
	}
	if inPairs := name != "label_del" && name != "label_keep"; inPairs && len(texts)%2 != 0 {
		return nil, fmt.Errorf("%s wants pairs of texts behind its first argument", name)
	}
	return texts, nil
}

// rollupOf returns the node of a function of windows, which PromQL has not, or not without a window; nil: it is none.
func (c *compiler) rollupOf(name string, e *metricsql.FuncExpr) (*rollup, error) {
	_, known := windowFunctions[name]
	several := isRollup(name)
	if !known && !several {
		if metricsql.IsRollupFunc(name) && parser.Functions[name] == nil {
			return nil, unsupported("MetricsQL's function %s", name)
		}
		return nil, nil
	}
	if len(e.Args) == 0 {
		return nil, fmt.Errorf("%s wants an argument", name)
	}
	r := &rollup{function: name, keepName: e.KeepMetricNames}
	of, _ := e.Args[0].(*metricsql.RollupExpr)
	if of == nil {
		of = &metricsql.RollupExpr{Expr: e.Args[0]}
	}
	if f := parser.Functions[name]; f != nil && !f.Experimental && of.Window != nil && !e.KeepMetricNames {
		return nil, nil // as PromQL has it
	}
	metric, ok := of.Expr.(*metricsql.MetricExpr)
	if !ok || of.ForSubquery() || of.At != nil {
		return nil, unsupported("%s of other than a selector, with or without a window,", name)
	}
	var err error
	if r.selector, err = selector(metric); err != nil {
		return nil, err
	}
	if of.Window != nil {
		if _, r.windowMs, err = c.duration(of.Window); err == nil && r.windowMs <= 0 {
			err = fmt.Errorf("window %s: it must be longer than 0", of.Window.AppendString(nil))
		}
		if err != nil {
			return nil, err
		}
	}
	if _, r.offsetMs, err = c.duration(of.Offset); err != nil {
		return nil, err
	}
	switch len(e.Args) {
	case 1:
		return r, nil
	case 2:
		if only, ok := e.Args[1].(*metricsql.StringExpr); ok && several {
			if r.only = only.S; len(r.results()) == 1 {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("%s wants a selector, and rollup_… may have the name of a result behind it, such as \"max\"", name)
}
