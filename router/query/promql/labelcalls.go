package promql

import (
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Limits of what label_replace and label_join cost on the series that were read. The engine ends
// neither when the query is cancelled.
const (
	// labelStepsMax bounds the steps of all calls of a query together. A step is an instruction of a
	// regular expression tried on a byte, which takes about 10 ns where the expression is made to be
	// slow, and a fifth of that where it is not: the worst query goes on for half a second.
	labelStepsMax = 50e6
	// capturesPerStep is how many more captures cost as much as the step itself: each state of the
	// matcher has a copy of all of them.
	capturesPerStep = 128
	// valueBytesMax is how long a float is as the label of count_values.
	valueBytesMax = 330
)

// labelCalls are the calls of label_replace and label_join of one query, and what is known of the
// series that they get. It is for one goroutine.
type labelCalls struct {
	root  *labelNode
	nodes int64           // of the expression: series that come from no selector are no more
	steps int64           // of the query, or of its longest subquery
	old   map[string]bool // labels that are looked at

	spreads bool  // a label of one series may come to many
	series  int64 // that were read
	longest int   // bytes of the longest of the old labels
	sum     int64 // bytes of the longest old label of each series
	taken   int64 // bytes that were charged
}

// labelNode is a part of an expression.
type labelNode struct {
	parts   []*labelNode
	call    *labelCall // nil: it leaves labels as they are
	text    int        // bytes of the longest label that it takes from the text of the query
	eachOne bool       // it makes a series of each value: count_values
}

// labelCall is a call of label_replace, or of label_join where joined is not 0.
type labelCall struct {
	joined                   int // labels
	fixed                    int // bytes of the replacement or of the separator
	uses                     int // how often the new label has what a byte of the old one was
	references               int // of the replacement
	instructions, captureMax int // of the regular expression
}

// labelCallsOf returns the calls of an expression, which guard has let pass; nil: there are none.
func labelCallsOf(expr parser.Expr, steps int64) *labelCalls {
	c := &labelCalls{steps: steps, old: map[string]bool{}}
	if c.root = c.node(expr); len(c.old) == 0 {
		return nil
	}
	return c
}

func (c *labelCalls) node(node parser.Node) *labelNode {
	c.nodes++
	n := &labelNode{}
	for child := range parser.ChildrenIter(node) {
		n.parts = append(n.parts, c.node(child))
	}
	switch node := node.(type) {
	case *parser.AggregateExpr:
		n.eachOne = node.Op == parser.COUNT_VALUES
	case *parser.BinaryExpr: // group_left copies a label to many series
		c.spreads = c.spreads || node.VectorMatching != nil && len(node.VectorMatching.Include) > 0
	case *parser.VectorSelector:
		for _, m := range node.LabelMatchers { // absent makes labels of them
			if m.Type == labels.MatchEqual && m.Name != rangedLabel {
				n.text = max(n.text, len(m.Value))
			}
		}
	case *parser.Call:
		switch node.Func.Name {
		case labelReplace:
			n.call = replaceCall(textOfArgument(node, replaceReplacement), textOfArgument(node, replaceExpression))
			c.old[textOfArgument(node, replaceOld)] = true
		case labelJoin:
			n.call = &labelCall{joined: max(0, len(node.Args)-joinOld), fixed: len(textOfArgument(node, joinSeparator)), uses: 1}
			for at := joinOld; at < len(node.Args); at++ {
				c.old[textOfArgument(node, at)] = true
			}
			if n.call.joined == 0 {
				n.call = nil
			}
		}
	}
	return n
}

// replaceCall returns the call of an expression, which matches whole labels; nil: the engine
// refuses it.
func replaceCall(replacement, expression string) *labelCall {
	tree, err := syntax.Parse("^(?s:"+expression+")$", syntax.Perl)
	if err != nil {
		return nil
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil
	}
	c := &labelCall{fixed: len(replacement), instructions: len(program.Inst), captureMax: program.NumCap}
	// Groups that do not stand in each other are parts of the label that do not overlap.
	names, uses, most := tree.CapNames(), map[int]int{}, 0
	for _, after := range strings.Split(replacement, "$")[1:] {
		c.references++
		group := groupOf(after, names)
		uses[group]++
		most = max(most, uses[group])
	}
	depth := max(1, groupDepth(tree))
	if uses[0] > 0 { // the whole
		depth++
	}
	c.uses = most * depth
	return c
}

// newBytes returns how long the new label is at most.
func (c *labelCall) newBytes(old int) int {
	if c.joined > 0 {
		return c.joined * (old + c.fixed)
	}
	return c.fixed + c.uses*old
}

// stepsOf returns about how many steps one series takes.
func (c *labelCall) stepsOf(old int) float64 {
	captures := 1 + float64(c.captureMax)/capturesPerStep
	return float64(c.instructions)*float64(old+1)*captures + float64(c.references)*float64(c.captureMax) + float64(c.newBytes(old))
}

// longest returns a bound of the longest label behind a node, where those that were read have so
// many bytes, and whether it has series of single values. Visit is called for each call with the
// bound of its old labels; nil: nothing is.
func (n *labelNode) longest(read int, visit func(c *labelCall, old int, eachOne bool)) (bytes int, eachOne bool) {
	bytes = max(read, n.text)
	for _, part := range n.parts {
		below, each := part.longest(read, visit)
		bytes, eachOne = max(bytes, below), eachOne || each
	}
	if n.eachOne {
		bytes, eachOne = max(bytes, valueBytesMax), true
	}
	if n.call == nil {
		return bytes, eachOne
	}
	if visit != nil {
		visit(n.call, bytes, eachOne)
	}
	return min(max(bytes, n.call.newBytes(bytes)), math.MaxInt32), eachOne
}

// read notes series that were read, charges what becomes of them, and refuses what would take too
// long. Errors: guard.ErrTooLarge, and those of the entry.
func (c *labelCalls) read(entry *admission.Entry, runs [][]column) error {
	for _, run := range runs {
		c.series += int64(len(run))
		for i := range run {
			longest := 0
			run[i].labels.Range(func(l labels.Label) {
				if len(l.Value) > longest && c.old[l.Name] {
					longest = len(l.Value)
				}
			})
			c.longest, c.sum = max(c.longest, longest), c.sum+int64(longest)
		}
	}
	// Steps and bytes grow with the length in proportion, so that their sum over all series is that
	// of as many series of mean length, unless one label comes to many.
	typical := c.longest
	if !c.spreads {
		typical = int((c.sum + max(c.series, 1) - 1) / max(c.series, 1))
	}
	steps, bytes := 0.0, 0.0
	c.root.longest(typical, func(call *labelCall, old int, eachOne bool) {
		series := float64(c.series + c.nodes)
		if eachOne {
			series *= float64(c.steps)
		}
		steps += series * call.stepsOf(old)
		bytes += series * float64(call.newBytes(old))
	})
	if steps > labelStepsMax {
		return fmt.Errorf("%w: label_replace and label_join would take %.0f million steps for %d series with labels of up to %d bytes, more than %.0f million: select fewer series, aggregate them first, or use a shorter expression", guard.ErrTooLarge, steps/1e6, c.series, c.longest, labelStepsMax/1e6)
	}
	more := int64(bytes) - c.taken
	c.taken += more
	return entry.Take(more)
}

// groupOf returns the group that a text behind a $ stands for, as regexp.Expand reads it; -1: none.
func groupOf(text string, names []string) int {
	text = strings.TrimPrefix(text, "{")
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end >= 0 {
		text = text[:end]
	}
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	if text == "" {
		return -1
	}
	return slices.Index(names, text)
}

// groupDepth returns how many groups that capture stand in each other.
func groupDepth(re *syntax.Regexp) (depth int) {
	for _, sub := range re.Sub {
		depth = max(depth, groupDepth(sub))
	}
	if re.Op == syntax.OpCapture {
		depth++
	}
	return depth
}

// textOfArgument returns the text that is an argument of a call; "": it is none.
func textOfArgument(call *parser.Call, at int) string {
	if at >= len(call.Args) {
		return ""
	}
	arg := call.Args[at]
	for inner, ok := arg.(*parser.ParenExpr); ok; inner, ok = arg.(*parser.ParenExpr) {
		arg = inner.Expr
	}
	if text, ok := arg.(*parser.StringLiteral); ok {
		return text.Val
	}
	return ""
}
