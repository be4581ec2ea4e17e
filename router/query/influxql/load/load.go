// Package load reads the series of a measurement as InfluxQL sees them: tables that join the fields of one set of
// tags by time, or windows of aggregates, as far as a condition lets them in, on account of one query. It does
// not know what is computed of them: no calls, no fill, no subqueries.
package load

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// Span is a range of time in nanoseconds, both ends inclusive.
type Span struct{ From, To int64 }

// Holding is memory that a statement holds.
type Holding struct{ bytes atomic.Int64 }

// Reader reads what is stored, on account of one query.
type Reader struct {
	Ctx      context.Context
	Source   scan.Source
	Entry    *admission.Entry
	Parallel int // visitors of a scan at once
}

// Take charges memory to the query.
func (r *Reader) Take(h *Holding, bytes int64) error {
	err := r.Entry.Take(bytes)
	if err == nil {
		h.bytes.Add(bytes)
	}
	return err
}

// Release frees all of it.
func (r *Reader) Release(h *Holding) { r.Entry.Give(h.bytes.Swap(0)) }

// Loader reads one measurement.
type Loader struct {
	reader    *Reader
	held      *Holding
	Of        *Measurement
	inputs    []ql.VarRef // columns of the tables
	Condition Condition
	fields    []string // that are read: those among inputs, then those that are only compared
	RowsMax   int      // of each table, the first ones; 0: all
	Backwards bool     // the first ones are the newest
	decide    Evaluator
	decideBy  []string // names of the symbols of decide
}

// NewLoader prepares a read; nil: the measurement has none of the fields.
func (r *Reader) NewLoader(held *Holding, m *Measurement, inputs []ql.VarRef, where ql.Expr) (*Loader, error) {
	l := &Loader{reader: r, held: held, Of: m, inputs: inputs, Condition: SplitCondition(where, m)}
	for _, ref := range inputs {
		if m.HasField(ref.Val) && !slices.Contains(l.fields, ref.Val) {
			l.fields = append(l.fields, ref.Val)
		}
	}
	if len(l.fields) == 0 {
		return nil, nil
	}
	for _, name := range l.Condition.Fields {
		if !slices.Contains(l.fields, name) {
			l.fields = append(l.fields, name)
		}
	}
	if l.Condition.Rest == nil {
		return l, nil
	}
	var err error
	l.decide, err = NewEvaluator(l.Condition.Rest, Variables(&l.decideBy))
	return l, err
}

// selector picks the series of some fields.
func (l *Loader) selector(fields []string) scan.Selector {
	return scan.Selector{Database: l.Of.database, Metric: l.Of.name, Matchers: append(slices.Clone(l.Condition.Matchers), fieldMatcher(series.FieldTagName, fields))}
}

// seriesData is one series as it was read.
type seriesData struct {
	id     string // of its tags without _field
	order  string
	tags   []answer.Tag
	field  int // among the loader's fields
	times  []int64
	values []float64
}

// seriesCollector collects the series that one visitor sees.
type seriesCollector struct {
	loader *Loader
	key    []byte
	parts  []series.Tag
	skip   bool
	times  []int64
	values []float64
	all    []seriesData
	last   []int64 // times of the series before
}

// Tables reads samples and joins the fields of each set of tags.
func (l *Loader) Tables(of Span) ([]*Table, error) {
	request := &scan.Request{Selector: l.selector(l.fields), Limits: l.reader.Entry.Limits(), Parallel: l.reader.Parallel}
	request.FromMs, request.ToMs = MsRange(of.From, of.To)
	if request.FromMs > request.ToMs {
		return nil, nil
	}
	workers := make([]seriesCollector, l.reader.Parallel)
	for i := range workers {
		workers[i].loader = l
	}
	err := l.reader.Source.Scan(l.reader.Ctx, request, func(worker int, c *scan.Chunk) error { return workers[worker].visit(c) })
	if err != nil {
		return nil, err
	}
	var all []seriesData
	for i := range workers {
		if err := workers[i].finish(); err != nil {
			return nil, err
		}
		all = append(all, workers[i].all...)
	}
	return l.join(all)
}

// visit takes a stretch of a series.
func (p *seriesCollector) visit(c *scan.Chunk) error {
	if string(c.Key) != string(p.key) {
		if err := p.finish(); err != nil {
			return err
		}
		p.key = append(p.key[:0], c.Key...)
		var err error
		if p.skip, err = p.begin(); err != nil {
			return err
		}
	}
	if p.skip {
		return nil
	}
	grown := len(p.times)
	for i, v := range c.Values {
		if v == v {
			p.times = append(p.times, c.Times[i]*NsPerMs)
			p.values = append(p.values, v)
		}
	}
	p.trim()
	return p.loader.reader.Take(p.loader.held, 16*int64(len(p.times)-grown))
}

// trim drops what cannot be among the rows of the answer: a row stands behind all earlier
// values of each of its fields.
func (p *seriesCollector) trim() {
	most, n := p.loader.RowsMax, len(p.times)
	switch {
	case most == 0 || n <= most:
	case !p.loader.Backwards:
		p.times, p.values = p.times[:most], p.values[:most]
	case n > 2*most:
		p.times, p.values = append(p.times[:0], p.times[n-most:]...), append(p.values[:0], p.values[n-most:]...)
	}
}

// begin looks at the key of a series: one that the condition leaves out by its tags is skipped.
func (p *seriesCollector) begin() (skip bool, err error) {
	_, _, p.parts, err = series.Key(p.key).Parts(p.parts[:0])
	if err != nil {
		return false, err
	}
	l := p.loader
	if l.decide == nil || len(l.Condition.Fields) > 0 {
		return false, nil
	}
	symbols := make([]answer.Value, len(l.decideBy))
	for i, name := range l.decideBy {
		symbols[i] = answer.String(ValueOfPart(p.parts, name))
	}
	return !l.decide(symbols).IsTrue(), nil
}

// ValueOfPart returns the value of a tag; a tag that is not there is the empty string.
func ValueOfPart(parts []series.Tag, name string) string {
	for _, t := range parts {
		if string(t.Name) == name {
			return string(t.Value)
		}
	}
	return ""
}

// finish keeps the series that has been visited, if any.
func (p *seriesCollector) finish() error {
	if len(p.key) == 0 {
		return nil
	}
	if len(p.times) > 0 {
		tags, order, field := splitTags(p.parts)
		kept := seriesData{id: IDOf(tags), order: order, tags: tags, field: slices.Index(p.loader.fields, field), values: slices.Clone(p.values)}
		if !slices.Equal(p.last, p.times) {
			p.last = slices.Clone(p.times)
		}
		kept.times = p.last
		p.all = append(p.all, kept)
		if err := p.loader.reader.Take(p.loader.held, int64(seriesDataBytes+2*len(p.key))); err != nil {
			return err
		}
	}
	p.key, p.times, p.values = p.key[:0], p.times[:0], p.values[:0]
	return nil
}

// seriesDataBytes is about what a series takes beside its samples: in its list, in the list of
// all, and as a table.
const seriesDataBytes = 400

// splitTags returns the tags of a series without _field, a text by which tables of one
// measurement are put into order, and the series' field.
func splitTags(parts []series.Tag) (tags []answer.Tag, order, field string) {
	field = ValueField
	var buffer [256]byte
	text := buffer[:0]
	n := 0
	for _, t := range parts {
		if string(t.Name) == series.FieldTagName {
			field = string(t.Value)
			continue
		}
		text = append(append(append(append(text, t.Name...), 0), t.Value...), 0)
		n++
	}
	order = string(text)
	rest := order // the tags share its bytes
	tags = make([]answer.Tag, 0, n)
	for _, t := range parts {
		if string(t.Name) == series.FieldTagName {
			continue
		}
		name, value := len(t.Name), len(t.Name)+1+len(t.Value)
		tags = append(tags, answer.Tag{Key: rest[:name], Value: rest[name+1 : value]})
		rest = rest[value+1:]
	}
	return tags, order, field
}

// IDOf returns a text that differs for different tags.
func IDOf(tags []answer.Tag) string {
	var key []byte
	for _, t := range tags {
		key = series.AppendPart(series.AppendPart(key, []byte(t.Key)), []byte(t.Value))
	}
	return string(key)
}

// join makes one table of the series of each set of tags, in the order of the tags.
func (l *Loader) join(all []seriesData) ([]*Table, error) {
	slices.SortStableFunc(all, func(a, b seriesData) int { return cmp.Or(strings.Compare(a.id, b.id), cmp.Compare(a.field, b.field)) })
	var tables []*Table
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].id == all[0].id {
			n++
		}
		t, err := l.joinOne(all[:n])
		if err != nil {
			return nil, err
		}
		if t != nil {
			tables = append(tables, t)
		}
		clear(all[:n])
		all = all[n:]
		if len(tables)&(1<<8-1) == 0 {
			processor.Of(l.reader.Ctx).Pace()
			if err := l.reader.Ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(tables, CompareTables)
	return tables, nil
}

// joinOne makes a table; nil: the condition leaves nothing.
func (l *Loader) joinOne(parts []seriesData) (*Table, error) {
	times := parts[0].times
	for _, p := range parts[1:] {
		times = Union(times, p.times)
	}
	numbers := make([][]float64, len(l.fields))
	for _, p := range parts {
		spread := spreadOver(times, &p)
		if numbers[p.field] == nil {
			numbers[p.field] = spread
			continue
		}
		for i, v := range spread { // the same field by two names
			if v == v {
				numbers[p.field][i] = v
			}
		}
	}
	if err := l.reader.Take(l.held, int64(8*len(times)*(len(parts)-1))); err != nil {
		return nil, err
	}
	t := &Table{Name: l.Of.name, Tags: parts[0].tags, order: parts[0].order, Times: times, Columns: make([]Column, len(l.inputs))}
	l.filter(t, numbers)
	if len(t.Times) == 0 {
		return nil, nil
	}
	for i, ref := range l.inputs {
		t.Columns[i] = l.columnOf(t, ref, numbers)
	}
	return t, nil
}

// columnOf returns the column of a variable: a field, or a tag that is there. A field can be
// cast to an integer; no field is anything else.
func (l *Loader) columnOf(t *Table, ref ql.VarRef, numbers [][]float64) Column {
	at := slices.Index(l.fields, ref.Val)
	if at < 0 || numbers[at] == nil {
		if at < 0 && (ref.Type == ql.Tag || ref.Type == ql.Unknown) {
			return tagColumn(t, ref.Val)
		}
		return Column{}
	}
	switch ref.Type {
	case ql.Float, ql.AnyField, ql.Unknown:
		return Column{Kind: answer.KindFloat, Numbers: numbers[at]}
	case ql.Integer, ql.Unsigned:
		whole := make([]float64, len(numbers[at]))
		for i, v := range numbers[at] {
			whole[i] = math.Trunc(v)
		}
		return Column{Kind: answer.KindInteger, Numbers: whole}
	}
	return Column{}
}

// tagColumn returns the column of a tag: null where it is not there.
func tagColumn(t *Table, name string) Column {
	text := t.TagValue(name)
	if text == "" {
		return Column{}
	}
	v := answer.String(text)
	return Column{Kind: answer.KindString, Constant: &v}
}

// filter keeps the rows that the condition wants and that have a field that was asked for.
func (l *Loader) filter(t *Table, numbers [][]float64) {
	if l.decide == nil || len(l.Condition.Fields) == 0 {
		return // each row has a field: nothing was read that is only compared
	}
	symbols := make([]answer.Value, len(l.decideBy))
	var compared [][]float64 // of the symbols that are fields
	for i, name := range l.decideBy {
		at := slices.Index(l.fields, name)
		if at < 0 {
			symbols[i] = answer.String(t.TagValue(name))
			compared = append(compared, nil)
			continue
		}
		compared = append(compared, numbers[at])
	}
	asked := l.askedFields(numbers)
	kept := 0
	t.Times = slices.Clone(t.Times) // they may be shared
	for row := range t.Times {
		for i, name := range l.decideBy {
			switch {
			case compared[i] != nil:
				symbols[i] = answer.Float(compared[i][row])
			case slices.Contains(l.fields, name):
				symbols[i] = answer.Value{}
			}
		}
		if !anyAt(asked, row) || !l.decide(symbols).IsTrue() {
			continue
		}
		t.Times[kept] = t.Times[row]
		for _, column := range numbers {
			if column != nil {
				column[kept] = column[row]
			}
		}
		kept++
	}
	t.Times = t.Times[:kept]
	for i, column := range numbers {
		if column != nil {
			numbers[i] = column[:kept]
		}
	}
}

// askedFields returns the columns of fields that are among the inputs.
func (l *Loader) askedFields(numbers [][]float64) [][]float64 {
	var asked [][]float64
	for i, name := range l.fields {
		if numbers[i] != nil && placeOf(l.inputs, name) >= 0 {
			asked = append(asked, numbers[i])
		}
	}
	return asked
}

func anyAt(columns [][]float64, row int) bool {
	for _, c := range columns {
		if v := c[row]; v == v {
			return true
		}
	}
	return false
}

// Union returns all times of two ascending lists, once each.
func Union(a, b []int64) []int64 {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)) {
		return a
	}
	merged := make([]int64, 0, len(a)+len(b))
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] < b[j]:
			merged = append(merged, a[i])
			i++
		case a[i] > b[j]:
			merged = append(merged, b[j])
			j++
		default:
			merged = append(merged, a[i])
			i++
			j++
		}
	}
	return append(append(merged, a[i:]...), b[j:]...)
}

// spreadOver puts the values of a series at their places among times, which hold its own.
func spreadOver(times []int64, p *seriesData) []float64 {
	if len(times) == len(p.times) {
		return p.values
	}
	spread := make([]float64, len(times))
	at := 0
	for i, t := range times {
		spread[i] = math.NaN()
		if at < len(p.times) && p.times[at] == t {
			spread[i] = p.values[at]
			at++
		}
	}
	return spread
}
