package influxql

import (
	"fmt"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// call is a function of a selection, over a field or over another call.
type call struct {
	expr     *ql.Call
	name     string
	place    int         // among the symbols
	kind     answer.Kind // of its values
	selector bool        // it is all there is and picks single points: they keep their time
	span     load.Span   // of the points that it is computed from
	inner    *call
	input    int // without inner: the column of its field
	read     int // without inner: which of the reads it is computed from

	n          int     // of moving_average, sample, top and bottom; points of a season of holt_winters
	horizon    int     // of holt_winters
	percentile float64 // of percentile
	unitNs     int64   // of derivative, elapsed and integral
	tags       []string
}

// point is a value of a call.
type point struct {
	time   int64
	number float64     // NaN: null, or a text
	table  *load.Table // where it was picked; nil: nowhere
	row    int32
	empty  bool // there is no value, as fill() has put in nothing
}

// base returns the innermost call.
func (c *call) base() *call {
	for c.inner != nil {
		c = c.inner
	}
	return c
}

// valueOf returns the value of a point.
func (c *call) valueOf(p *point) answer.Value {
	if c.kind == answer.KindString || c.kind == answer.KindBoolean {
		if p.table == nil {
			return answer.Value{}
		}
		return p.table.Columns[c.base().input].At(int(p.row))
	}
	return answer.Number(p.number, c.kind)
}

// newCall plans a call over the points of a span.
func (s *selection) newCall(expr *ql.Call, of load.Span) (*call, error) {
	t, err := typesOf().EvalType(expr)
	if err != nil {
		return nil, err
	}
	c := &call{expr: expr, name: expr.Name, kind: answer.KindOf(t), span: of}
	if c.kind == answer.KindNull {
		c.kind = answer.KindFloat
	}
	if len(expr.Args) == 0 {
		return nil, fmt.Errorf("invalid number of arguments for %s", expr.Name)
	}
	if isTransform(c.name) && c.name != "cumulative_sum" && s.interval.DurationNs != 0 {
		of = s.extended(of)
	}
	s.setParameters(c)
	switch argument := expr.Args[0].(type) {
	case *ql.VarRef:
		c.span, c.input = of, s.input(argument)
	case *ql.Call:
		c.inner, err = s.newCall(argument, of)
	case *ql.Distinct:
		c.inner, err = s.newCall(argument.NewCall(), of)
	default:
		err = fmt.Errorf("expected field argument in %s()", c.name)
	}
	return c, err
}

// setParameters reads what stands behind the first argument.
func (s *selection) setParameters(c *call) {
	c.unitNs = int64(time.Second)
	switch {
	case c.name == "elapsed":
		c.unitNs = 1
	case c.name != "integral" && s.interval.DurationNs != 0:
		c.unitNs = s.interval.DurationNs
	}
	arguments := c.expr.Args[1:]
	if len(arguments) == 0 {
		return
	}
	switch v := arguments[len(arguments)-1].(type) {
	case *ql.IntegerLiteral:
		c.n, c.percentile = int(v.Val), float64(v.Val)
	case *ql.NumberLiteral:
		c.percentile = v.Val
	case *ql.DurationLiteral:
		c.unitNs = int64(v.Val)
	}
	if isForecast(c.name) {
		if n, ok := arguments[0].(*ql.IntegerLiteral); ok {
			c.horizon = int(n.Val)
		}
	}
	if isTopBottom(c.expr) {
		for _, argument := range arguments[:len(arguments)-1] {
			if ref, ok := argument.(*ql.VarRef); ok {
				c.tags = append(c.tags, ref.Val)
			}
		}
	}
}

// extended adds the window before the span, from which the first one is told apart.
func (s *selection) extended(of load.Span) load.Span {
	d := s.interval.DurationNs
	switch {
	case s.ascending && of.From > ql.MinTime+d:
		of.From -= d
	case !s.ascending && of.To < ql.MaxTime-d:
		of.To += d
	}
	return of
}

// isTransform reports whether a function returns points for neighbouring points, not for windows.
func isTransform(name string) bool {
	switch name {
	case "derivative", "non_negative_derivative", "difference", "non_negative_difference", "moving_average", "elapsed", "cumulative_sum":
		return true
	}
	return false
}

// aggregatesOf returns what windows have to carry for a function.
func aggregatesOf(name string) (scan.Aggregate, bool) {
	switch name {
	case "count":
		return scan.AggregateCount, true
	case "sum":
		return scan.AggregateSum, true
	case "mean":
		return scan.AggregateSum | scan.AggregateCount, true
	case "min":
		return scan.AggregateMin, true
	case "max":
		return scan.AggregateMax, true
	case "spread":
		return scan.AggregateMin | scan.AggregateMax, true
	case "first":
		return scan.AggregateFirst, true
	case "last":
		return scan.AggregateLast, true
	}
	return 0, false
}
