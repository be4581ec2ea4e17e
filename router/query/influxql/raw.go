package influxql

import ql "github.com/influxdata/influxql"

// raw answers fields and tags as they are.
func (s *selection) raw(out sink) error {
	typed := false
	for _, ref := range s.inputs {
		typed = typed || ref.Type != ql.Unknown
	}
	if !typed {
		return nil // nothing that was asked for is there
	}
	tables, err := s.read(s.span)
	if err != nil {
		return err
	}
	by := newGrouper(s.by, 1)
	for _, t := range tables {
		by.add(0, t)
	}
	for _, g := range s.inOrder(by.sorted()) {
		if err := s.rawGroup(g, out); err != nil {
			return err
		}
	}
	return nil
}

// rawGroup answers the rows of one group, in the order of time.
func (s *selection) rawGroup(g *group, out sink) error {
	symbols, values := s.newRow()
	w := newWalk(g.tables[0], s.from, s.to, !s.ascending)
	begun := false
	for n := 1; s.limit <= 0 || n <= s.offset+s.limit; n++ {
		t, row := w.next()
		if t == nil {
			break
		}
		if n <= s.offset {
			continue
		}
		s.setAuxiliary(symbols, t, row)
		if !begun {
			begun = true
			if err := out.series(s.head(g)); err != nil {
				return err
			}
		}
		for i, of := range s.fields {
			values[i] = of(symbols)
		}
		if err := out.row(t.times[row], values); err != nil {
			return err
		}
	}
	return nil
}

// newRow gives the symbols of a group's rows, all null, and room for the values of one row.
func (s *selection) newRow() (symbols, values []value) {
	return make([]value, len(s.kinds)), make([]value, len(s.fields))
}

// setAuxiliary puts the variables of a row into symbols. What is null becomes what fill() says.
func (s *selection) setAuxiliary(symbols []value, t *table, row int) {
	for _, a := range s.auxiliary {
		var v value
		if t != nil {
			v = t.columns[a.input].at(row)
		}
		if v.kind == kindNull {
			s.setDefault(symbols, a.place)
			continue
		}
		symbols[a.place] = v
	}
}

// setDefault puts in what fill() says where there is no value: nothing, a number, or with
// fill(previous) what was there before.
func (s *selection) setDefault(symbols []value, place int) {
	switch s.fill {
	case ql.PreviousFill:
	case ql.NumberFill:
		symbols[place] = s.fillValue.cast(s.kinds[place])
	default:
		symbols[place] = value{}
	}
}
