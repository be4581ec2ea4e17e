package parse

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// CSVFormat describes the columns of comma-separated values, as VictoriaMetrics' query arg format does.
type CSVFormat struct {
	columns []csvColumn // by place; columns of no meaning are left out
}

// csvColumn is a column with a meaning.
type csvColumn struct {
	place int // from 1
	kind  csvKind
	name  []byte // of the metric or label; the layout of csvCustom
}

type csvKind uint8

const (
	csvMetric csvKind = iota
	csvLabel
	csvSeconds
	csvMilliseconds
	csvNanoseconds
	csvRFC3339
	csvCustom
)

func (k csvKind) isTime() bool { return k >= csvSeconds }

//nolint:gochecknoglobals // a constant table
var csvTimes = map[string]csvKind{"unix_s": csvSeconds, "unix_ms": csvMilliseconds, "unix_ns": csvNanoseconds, "rfc3339": csvRFC3339}

//nolint:gochecknoglobals // a constant
var byteOrderMark = []byte("\uFEFF") // which spreadsheets write

// csvPlaceMax is the last place of a column that a format may name, as in VictoriaMetrics.
const csvPlaceMax = 64 << 10

// ParseCSVFormat reads a format: a comma-separated list of PLACE:KIND:CONTEXT, where
//
//	PLACE  is the place of the column, from 1
//	KIND   is metric or label, whose name is CONTEXT, or time
//	time   has the CONTEXT unix_s, unix_ms, unix_ns, rfc3339, or custom:LAYOUT with a layout of Go's package time
//
// There is at least one metric, and at most one time.
func ParseCSVFormat(text string) (*CSVFormat, error) {
	f := &CSVFormat{}
	for entry := range strings.SplitSeq(text, ",") {
		column, err := parseCSVColumn(entry)
		if err != nil {
			return nil, fmt.Errorf("format: %q %w", entry, err)
		}
		f.columns = append(f.columns, column)
	}
	slices.SortFunc(f.columns, func(a, b csvColumn) int { return a.place - b.place })
	metrics, times := 0, 0
	for i := range f.columns {
		switch c := &f.columns[i]; {
		case i > 0 && c.place == f.columns[i-1].place:
			return nil, fmt.Errorf("format: column %d is named twice", c.place)
		case c.kind == csvMetric:
			metrics++
		case c.kind.isTime():
			times++
		}
	}
	switch {
	case metrics == 0:
		return nil, errors.New("format: no column is a metric, as in 2:metric:temperature")
	case times > 1:
		return nil, errors.New("format: more than one column is a time")
	}
	return f, nil
}

func parseCSVColumn(entry string) (c csvColumn, err error) {
	parts := strings.SplitN(entry, ":", 3)
	if len(parts) != 3 {
		return c, errors.New("is not of the form PLACE:KIND:CONTEXT, as in 1:time:unix_s or 2:metric:temperature")
	}
	if c.place, err = strconv.Atoi(parts[0]); err != nil || c.place < 1 || c.place > csvPlaceMax {
		return c, fmt.Errorf("names no column from 1 to %d", csvPlaceMax)
	}
	context := parts[2]
	if !utf8.ValidString(context) {
		return c, errors.New("is not UTF-8")
	}
	switch parts[1] {
	case "metric":
		c.kind = csvMetric
	case "label":
		c.kind = csvLabel
	case "time":
		layout, custom := strings.CutPrefix(context, "custom:")
		kind, known := csvTimes[context]
		switch {
		case custom:
			c.kind, context = csvCustom, layout
		case known:
			c.kind = kind
		default:
			return c, errors.New("has a time of no known form; use unix_s, unix_ms, unix_ns, rfc3339, or custom:LAYOUT")
		}
	default:
		return c, errors.New("is of no known kind; use metric, label or time")
	}
	if context == "" {
		return c, errors.New("has no name")
	}
	c.name = []byte(context)
	return c, nil
}

// CSV parses comma-separated values as VictoriaMetrics takes them at /api/v1/import/csv. Each metric of a row is a Line
// of FormText with the labels of the row. Fields may be in quotes, single or double ones, which are doubled inside; a
// field does not reach beyond its line. An empty field is none: a label that the series has not, a metric without a
// sample, and a row without a time is of o.NowMs. A first row whose time or metric is no such thing is a header, and
// skipped. A label __name__ names the metrics of its row, in place of the format. Columns behind those of the format are left out, a row with fewer is an error.
//
// Of the options Precision is not used. Its errors are ErrTooLarge and those of b.Memory; errors of rows are in
// b.Errors.
func CSV(b *Batch, body []byte, format *CSVFormat, o LineOptions) (Rest, error) {
	p := csvParser{columns: format.columns, nowMs: o.NowMs, first: o.LinesBefore == 0 && !o.InsideLine}
	return textLines(b, body, o, &p.textParser, p.row)
}

// csvParser parses rows.
type csvParser struct {
	textParser
	columns []csvColumn
	nowMs   int64
	first   bool // no row came before

	fields []csvField // of the current row
}

// csvField is a field of a column with a meaning that is not empty.
type csvField struct {
	column *csvColumn
	text   []byte
	number series.Number
}

func (p *csvParser) row(l *Line, s []byte) (fault, error) {
	if len(s) == 0 {
		return fault{}, nil
	}
	first := p.first
	if p.first = false; first {
		s = bytes.TrimPrefix(s, byteOrderMark)
	}
	if wrong := p.split(s); wrong.detail != "" {
		return wrong, nil
	}
	timeMs := p.nowMs
	for i := range p.fields {
		f, wrong := &p.fields[i], fault{}
		switch {
		case f.column.kind.isTime():
			timeMs, wrong = f.column.time(f.text)
		case f.column.kind == csvMetric:
			f.number, wrong = numberOrWord(f.text)
		}
		if wrong.detail != "" {
			if first {
				return fault{}, nil // a header
			}
			wrong.detail = "column " + strconv.Itoa(f.column.place) + ": " + wrong.detail
			return wrong, nil
		}
	}
	for i := range p.fields {
		if f := &p.fields[i]; f.column.kind == csvMetric {
			if wrong, err := p.sample(l, timeMs, f); wrong.detail != "" || err != nil {
				return wrong, err
			}
		}
	}
	return fault{}, nil
}

// sample adds a sample of the row.
func (p *csvParser) sample(l *Line, timeMs int64, of *csvField) (fault, error) {
	p.run.begin()
	named, wrong, err := false, fault{}, error(nil)
	for i := range p.fields {
		if f := &p.fields[i]; f.column.kind == csvLabel && wrong.detail == "" && err == nil {
			named = named || string(f.column.name) == metricLabel
			wrong, err = p.run.add(f.column.name, f.text)
		}
	}
	if !named && wrong.detail == "" && err == nil {
		wrong, err = p.run.add(metricLabelName, of.column.name)
	}
	if wrong.detail != "" || err != nil {
		return wrong, err
	}
	return fault{}, p.add(l, timeMs, of.number)
}

// split finds the fields of a row that have a meaning.
func (p *csvParser) split(s []byte) fault {
	p.fields = p.fields[:0]
	place, next := 0, 0
	for at, more := 0, true; more; {
		text, behind, ok := p.field(s, at)
		place++
		switch {
		case !ok:
			return syntaxFault("column " + strconv.Itoa(place) + ": the quote is not closed on its line")
		case behind < len(s) && s[behind] != ',':
			return syntaxFault("column " + strconv.Itoa(place) + ": a comma is missing behind the quote")
		}
		if next < len(p.columns) && p.columns[next].place == place {
			if len(text) > 0 {
				p.fields = append(p.fields, csvField{column: &p.columns[next], text: text})
			}
			next++
		}
		more, at = behind < len(s), behind+1
	}
	if next < len(p.columns) {
		return syntaxFault(strconv.Itoa(place) + " columns, and the format wants " + strconv.Itoa(p.columns[len(p.columns)-1].place))
	}
	return fault{}
}

// field reads a field without its quotes; behind is where its comma should be. It returns false where its quote is not
// closed.
func (p *csvParser) field(s []byte, at int) (text []byte, behind int, ok bool) {
	if at == len(s) || s[at] != '"' && s[at] != '\'' {
		end := bytes.IndexByte(s[at:], ',')
		if end < 0 {
			end = len(s) - at
		}
		return s[at : at+end], at + end, true
	}
	quote, start := s[at], len(p.text)
	for at++; ; {
		end := bytes.IndexByte(s[at:], quote)
		if end < 0 {
			return nil, at, false
		}
		piece := s[at : at+end]
		at += end + 1
		if at == len(s) || s[at] != quote {
			if len(p.text) == start {
				return piece, at, true
			}
			p.text = append(p.text, piece...)
			return p.text[start:len(p.text):len(p.text)], at, true
		}
		p.text = append(append(p.text, piece...), quote)
		at++
	}
}

// time reads a time in the column's form.
func (c *csvColumn) time(text []byte) (int64, fault) {
	if c.kind == csvRFC3339 || c.kind == csvCustom {
		layout := time.RFC3339
		if c.kind == csvCustom {
			layout = string(c.name)
		}
		t, err := time.Parse(layout, string(text))
		if err != nil {
			return 0, valueFault("the time " + excerptOf(text) + " is not of the form " + strconv.Quote(layout))
		}
		return t.UnixMilli(), fault{}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, valueFault("the time " + excerptOf(text) + " is no whole number")
	}
	switch c.kind {
	case csvSeconds:
		if n < scan.TimeMsMin/1000 || n > scan.TimeMsMax/1000 {
			n = math.MaxInt64
			break
		}
		n *= 1000
	case csvNanoseconds:
		n = floorDivide(n, 1e6)
	}
	if !Reachable(n) {
		return 0, valueFault("the time " + excerptOf(text) + " is out of range")
	}
	return n, fault{}
}
