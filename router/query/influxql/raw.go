package influxql

import (
	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// raw answers fields and tags as they are.
func (s *selection) raw(out answer.Sink) error {
	typed := false
	for _, ref := range s.inputs {
		typed = typed || ref.Type != ql.Unknown
	}
	if !typed {
		return nil // nothing that was asked for is there
	}
	if s.isOneStream() {
		return s.rawStream(out)
	}
	tables, err := s.read(s.Span)
	if err != nil {
		return err
	}
	by := load.NewGrouper(s.by, 1)
	for _, t := range tables {
		by.Add(0, t)
	}
	for _, g := range s.inOrder(by.Sorted()) {
		if err := s.newRawSeries(g, out).answer(g.Tables[0], s.Span); err != nil {
			return err
		}
	}
	return nil
}

// rawSeries answers the rows of one group, in the order of time.
type rawSeries struct {
	s               *selection
	out             answer.Sink
	group           *load.Group
	symbols, values []answer.Value
	rows            int // that were there, those before OFFSET too
}

func (s *selection) newRawSeries(g *load.Group, out answer.Sink) *rawSeries {
	r := &rawSeries{s: s, out: out, group: g}
	r.symbols, r.values = s.newRow()
	return r
}

// isFull reports whether LIMIT is reached.
func (r *rawSeries) isFull() bool { return r.s.limit > 0 && r.rows >= r.s.offset+r.s.limit }

// answer answers the rows of tables within a span.
func (r *rawSeries) answer(tables []*load.Table, of load.Span) error {
	s := r.s
	w := load.NewWalk(tables, of.From, of.To, !s.ascending)
	for !r.isFull() {
		t, row := w.Next()
		if t == nil {
			break
		}
		if r.rows++; r.rows <= s.offset {
			continue
		}
		if r.rows == s.offset+1 {
			if err := r.out.Series(s.head(r.group)); err != nil {
				return err
			}
		}
		s.setAuxiliary(r.symbols, t, row)
		for i, of := range s.fields {
			r.values[i] = of(r.symbols)
		}
		if err := r.out.Row(t.Times[row], r.values); err != nil {
			return err
		}
	}
	return nil
}

// newRow returns the symbols of a group's rows, all null, and room for the values of one row.
func (s *selection) newRow() (symbols, values []answer.Value) {
	return make([]answer.Value, len(s.kinds)), make([]answer.Value, len(s.fields))
}

// setAuxiliary puts the variables of a row into symbols. What is null becomes what fill() says.
func (s *selection) setAuxiliary(symbols []answer.Value, t *load.Table, row int) {
	for _, a := range s.auxiliary {
		var v answer.Value
		if t != nil {
			v = t.Columns[a.input].At(row)
		}
		if v.Kind == answer.KindNull {
			s.setDefault(symbols, a.place)
			continue
		}
		symbols[a.place] = v
	}
}

// setDefault puts in what fill() says where there is no value: nothing, a number, or with
// fill(previous) what was there before.
func (s *selection) setDefault(symbols []answer.Value, place int) {
	switch s.fill {
	case ql.PreviousFill:
	case ql.NumberFill:
		symbols[place] = s.fillValue.Cast(s.kinds[place])
	default:
		symbols[place] = answer.Value{}
	}
}
