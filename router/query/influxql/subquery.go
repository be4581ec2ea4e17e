package influxql

import (
	"math"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// readSubquery runs a subquery and returns its rows as tables.
func (s *selection) readSubquery(stmt *ql.SelectStatement, of load.Span) ([]*load.Table, error) {
	sc, err := s.subScope(stmt, of)
	if err != nil {
		return nil, err
	}
	inner, err := s.newSelection(stmt, sc, s.schema, s.held)
	if err != nil {
		return nil, err
	}
	c := &collector{selection: s, stmt: stmt}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := inner.run(c); err != nil {
		return nil, err
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.tables, load.CompareTables)
	return c.tables, nil
}

// collector makes tables of the rows of a subquery: those that the condition of the
// statement around wants.
type collector struct {
	selection *selection
	stmt      *ql.SelectStatement
	decide    load.Evaluator
	decideBy  []string
	symbols   []answer.Value

	columns []int    // for each input the column of the rows; -1: none
	keys    []string // for each input the tag, where it is one that is grouped by
	now     *load.Table
	rows    []answer.Value // of the open table: the inputs of one row after the other
	tables  []*load.Table
}

// columnOfRows finds a name among the columns of the rows.
func (c *collector) columnOfRows(name string) int {
	at := 0
	for _, f := range c.stmt.Fields {
		if f.Name() == name {
			return at
		}
		at++
		call, ok := f.Expr.(*ql.Call)
		if !ok || !isTopBottom(call) {
			continue
		}
		for _, argument := range call.Args[1 : len(call.Args)-1] {
			if ref, ok := argument.(*ql.VarRef); ok && ref.Val == name {
				return at
			}
			at++
		}
	}
	return -1
}

func (c *collector) prepare() error {
	for _, ref := range c.selection.inputs {
		column := c.columnOfRows(ref.Val)
		key := ""
		if column < 0 && slices.ContainsFunc(c.stmt.Dimensions, func(d *ql.Dimension) bool {
			dimension, ok := d.Expr.(*ql.VarRef)
			return ok && dimension.Val == ref.Val
		}) {
			key = ref.Val
		}
		c.columns, c.keys = append(c.columns, column), append(c.keys, key)
	}
	if c.selection.condition == nil {
		return nil
	}
	var err error
	c.decide, err = load.NewEvaluator(c.selection.condition, load.Variables(&c.decideBy))
	c.symbols = make([]answer.Value, len(c.decideBy))
	return err
}

// Series implements sink.
func (c *collector) Series(h *answer.Head) error {
	if err := c.finish(); err != nil {
		return err
	}
	c.now = &load.Table{Name: h.Name, Tags: slices.Clone(h.Tags)}
	return nil
}

// Row implements sink.
func (c *collector) Row(timeNs int64, values []answer.Value) error {
	if c.decide != nil {
		for i, name := range c.decideBy {
			if at := c.columnOfRows(name); at >= 0 {
				c.symbols[i] = values[at]
			} else {
				c.symbols[i] = answer.String(c.now.TagValue(name))
			}
		}
		if !c.decide(c.symbols).IsTrue() {
			return nil
		}
	}
	c.now.Times = append(c.now.Times, timeNs)
	for _, column := range c.columns {
		var v answer.Value
		if column >= 0 {
			v = values[column]
		}
		c.rows = append(c.rows, v)
	}
	return c.selection.Take(c.selection.held, int64(8+48*len(c.columns)))
}

// finish makes columns of the rows of the open table.
func (c *collector) finish() error {
	t := c.now
	c.now = nil
	if t == nil || len(t.Times) == 0 {
		return nil
	}
	n, width := len(t.Times), len(c.columns)
	if !c.selection.ascending {
		slices.Reverse(t.Times)
	}
	t.Columns = make([]load.Column, width)
	for i := range t.Columns {
		if c.keys[i] != "" {
			v := answer.String(t.TagValue(c.keys[i]))
			t.Columns[i] = load.Column{Kind: answer.KindString, Constant: &v}
			continue
		}
		t.Columns[i] = c.columnFrom(i, n, width)
	}
	c.rows = c.rows[:0]
	c.tables = append(c.tables, t)
	return c.selection.Take(c.selection.held, t.Bytes())
}

// columnFrom makes one column, of numbers if all of it are.
func (c *collector) columnFrom(i, n, width int) load.Column {
	all := make([]answer.Value, n)
	of := answer.KindNull
	mixed := false
	for row := range n {
		v := c.rows[row*width+i]
		at := row
		if !c.selection.ascending {
			at = n - 1 - row
		}
		all[at] = v
		switch {
		case v.Kind == answer.KindNull || v.Kind == of:
		case of == answer.KindNull:
			of = v.Kind
		case v.IsNumber() && (of == answer.KindInteger || of == answer.KindFloat):
			of = answer.KindFloat
		default:
			mixed = true
		}
	}
	if mixed || of != answer.KindFloat && of != answer.KindInteger {
		return load.Column{Kind: of, Values: all}
	}
	numbers := make([]float64, n)
	for row, v := range all {
		numbers[row] = math.NaN()
		if v.IsNumber() {
			numbers[row] = v.Number
		}
	}
	return load.Column{Kind: of, Numbers: numbers}
}
