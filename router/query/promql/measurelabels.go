package promql

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/guard"
)

// Limits of label_replace and label_join, which the engine evaluates for all series at once,
// without a look at the context.
const (
	// replaceFactor is how many times the expression of label_replace counts: it is not only
	// compiled but tried on all series of the argument.
	replaceFactor = 10
	// labelBytesMax bounds the label that nested calls can make of one of labelBytesTypical. A
	// replacement such as $1$1 doubles a label, so that ten calls make a thousand times as much of
	// it, for each series.
	labelBytesMax     = 16 << 10
	labelBytesTypical = 128
)

// measureLabels checks what an expression makes of labels. Regular expressions of label_replace
// are texts like others until the engine compiles them. Error: guard.ErrTooLarge.
func measureLabels(m *guard.Meter, expr parser.Expr) error {
	_, err := labelBytes(m, expr)
	return err
}

// labelBytes returns a bound of the longest label that a node makes of labels of
// labelBytesTypical. Trees are as deep as guard allows.
func labelBytes(m *guard.Meter, node parser.Node) (longest int, err error) {
	longest = labelBytesTypical
	for child := range parser.ChildrenIter(node) {
		bytes, err := labelBytes(m, child)
		if err != nil {
			return 0, err
		}
		longest = max(longest, bytes)
	}
	call, ok := node.(*parser.Call)
	if !ok {
		return longest, nil
	}
	switch call.Func.Name {
	case "label_replace": // of a series, the new label, its value, the old label, an expression
		longest, err = replacedBytes(m, longest, textOfArgument(call, 2), textOfArgument(call, 4))
	case "label_join": // of a series, the new label, the separator, the old labels
		longest = max(longest, (len(call.Args)-3)*(longest+len(textOfArgument(call, 2))))
	}
	if err == nil && longest > labelBytesMax {
		err = fmt.Errorf("%w: its calls of label_replace and label_join can make a label of %d bytes of one of %d: nest fewer of them, or use less of the old label in each", guard.ErrTooLarge, longest, labelBytesTypical)
	}
	return longest, err
}

// replacedBytes returns a bound of the longest label where label_replace made some of labels of
// so many bytes.
func replacedBytes(m *guard.Meter, bytes int, replacement, expression string) (int, error) {
	for range replaceFactor {
		if err := m.Regexp(expression); err != nil {
			return 0, err
		}
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return bytes, nil //nolint:nilerr // the engine says so
	}
	// Groups that do not stand in each other are parts of the label that do not overlap.
	names, uses, most := tree.CapNames(), map[int]int{}, 0
	for _, after := range strings.Split(replacement, "$")[1:] {
		group := groupOf(after, names)
		uses[group]++
		most = max(most, uses[group])
	}
	depth := max(1, groupDepth(tree))
	if uses[0] > 0 { // the whole
		depth++
	}
	return max(bytes, len(replacement)+most*depth*bytes), nil
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
