package promql

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Limits of /api/v1/format_query.
const (
	lineBytesMax      = 100     // beyond which an expression is split, as Prometheus does
	formattedBytesMax = 4 << 20 // of an answer: each level is indented further
)

// formatted returns an expression as parser.Prettify formats it. That renders the whole of each
// level anew to see how long it is, and copies the text of each level into the next: the time
// grows with the cube of the length. Here an expression with a long part is known to be long, and
// all is written once.
func formatted(ctx context.Context, expr parser.Expr) (string, error) {
	f := &formatter{ctx: ctx, long: map[parser.Node]bool{}}
	f.findLong(expr)
	f.write(expr, 0)
	return f.out.String(), f.err
}

type formatter struct {
	ctx  context.Context
	long map[parser.Node]bool
	out  strings.Builder
	// joins: what is written next follows a sign, so that the space before it falls away.
	joins bool
	err   error
}

// findLong notes whether an expression and its parts are longer than a line.
func (f *formatter) findLong(node parser.Node) bool {
	long := false
	for child := range parser.ChildrenIter(node) {
		long = f.findLong(child) || long
	}
	// Where all parts are short, so is the time to render the whole.
	long = long || len(node.String()) > lineBytesMax
	f.long[node] = long
	return long
}

func (f *formatter) text(parts ...string) {
	for _, part := range parts {
		if f.joins {
			part = strings.TrimLeft(part, " ")
			f.joins = part == ""
		}
		if f.err != nil {
			return
		}
		if f.out.Len()+len(part) > formattedBytesMax {
			f.err = invalidParameter(fmt.Errorf("the formatted expression would be longer than %d bytes", formattedBytesMax), "query")
			return
		}
		f.out.WriteString(part)
	}
	if f.err == nil {
		f.err = f.ctx.Err()
	}
}

func (f *formatter) indent(level int) {
	const spaces = "                                                                "
	for n := 2 * level; n > 0 && f.err == nil; n -= len(spaces) {
		f.text(spaces[:min(n, len(spaces))])
	}
}

// write writes an expression from the begin of a line on, indented by a level.
func (f *formatter) write(node parser.Expr, level int) {
	if f.err != nil {
		return
	}
	if !f.long[node] {
		f.plain(node, level)
		return
	}
	switch n := node.(type) {
	case *parser.AggregateExpr:
		f.indent(level)
		f.text(n.ShortString(), "(\n")
		if n.Op.IsAggregatorWithParam() {
			f.write(n.Param, level+1)
			f.text(",\n")
		}
		f.write(n.Expr, level+1)
		f.close(level)
	case *parser.BinaryExpr:
		f.write(n.LHS, level+1)
		f.text("\n")
		f.indent(level)
		// ShortString is the operator with its modifiers, and how matching is done.
		f.text(n.ShortString(), "\n")
		f.write(n.RHS, level+1)
	case *parser.Call:
		f.indent(level)
		f.text(n.Func.Name, "(\n")
		for i, arg := range n.Args {
			if i > 0 {
				f.text(",\n")
			}
			f.write(arg, level+1)
		}
		f.close(level)
	case *parser.ParenExpr:
		f.indent(level)
		f.text("(\n")
		f.write(n.Expr, level+1)
		f.close(level)
	case *parser.SubqueryExpr:
		f.write(n.Expr, level)
		f.text(n.ShortString())
	case *parser.UnaryExpr:
		f.indent(level)
		f.text(n.Op.String())
		f.joins = true
		f.write(n.Expr, level)
	default:
		f.plain(node, level)
	}
}

// plain writes an expression in one line. A subquery that fits is not indented, as in Prometheus.
func (f *formatter) plain(node parser.Expr, level int) {
	if _, ok := node.(*parser.SubqueryExpr); !ok {
		f.indent(level)
	}
	f.text(node.String())
}

func (f *formatter) close(level int) {
	f.text("\n")
	f.indent(level)
	f.text(")")
}
