package promql

import (
	"fmt"

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

// Names of functions, and their arguments that are looked at.
const (
	labelReplace       = "label_replace" // of a series, the new label, its value, the old label, an expression
	labelJoin          = "label_join"    // of a series, the new label, the separator, the old labels
	replaceReplacement = 2
	replaceOld         = 3
	replaceExpression  = 4
	joinSeparator      = 2
	joinOld            = 3
)

// measureLabels checks what an expression makes of labels. Regular expressions of label_replace
// are texts like others until the engine compiles them. Error: guard.ErrTooLarge.
func measureLabels(m *guard.Meter, expr parser.Expr) error {
	var tooLarge error
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if call, ok := node.(*parser.Call); ok && call.Func.Name == labelReplace && tooLarge == nil {
			for i := 0; i < replaceFactor && tooLarge == nil; i++ {
				tooLarge = m.Regexp(textOfArgument(call, replaceExpression))
			}
		}
		return tooLarge
	})
	if tooLarge != nil {
		return tooLarge
	}
	calls := labelCallsOf(expr, 0)
	if calls == nil {
		return nil
	}
	if longest, _ := calls.root.longest(labelBytesTypical, nil); longest > labelBytesMax {
		return fmt.Errorf("%w: its calls of label_replace and label_join can make a label of %d bytes of one of %d: nest fewer of them, or use less of the old label in each", guard.ErrTooLarge, longest, labelBytesTypical)
	}
	return nil
}
