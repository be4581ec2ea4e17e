package answer

import (
	"strconv"

	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/router/query/decimal"
)

// jsonFormat writes one JSON document with all results.
type jsonFormat struct {
	page
	statements int
	start      int  // where the statement begins in text, while nothing of it is out; else -1
	listed     bool // the statement has a series
	open       bool // a series is open
	rows       int  // of the open series
}

// Begin implements Format.
func (f *jsonFormat) Begin() {
	f.held = pageBytesHeld
	f.text = append(f.text, `{"results":[`...)
}

// BeginStatement implements Format.
func (f *jsonFormat) BeginStatement(id int) {
	f.start = len(f.text)
	if f.statements > 0 {
		f.text = append(f.text, ',')
	}
	f.statements++
	f.text = strconv.AppendInt(append(f.text, `{"statement_id":`...), int64(id), 10)
	f.listed, f.open = false, false
}

// Series implements Format.
func (f *jsonFormat) Series(h *Head) {
	f.close()
	if f.listed {
		f.text = append(f.text, ',')
	} else {
		f.text = append(f.text, `,"series":[`...)
	}
	f.listed, f.open, f.rows = true, true, 0
	f.timed, f.zone = h.Timed, h.Zone
	f.text = appendHead(f.text, h)
}

// appendHead appends the beginning of a series, as far as its values.
func appendHead(dst []byte, h *Head) []byte {
	dst = append(dst, '{')
	if h.Name != "" {
		dst = append(jsontext.AppendHTML(append(dst, `"name":`...), h.Name), ',')
	}
	for i, t := range h.Tags {
		if i == 0 {
			dst = append(dst, `"tags":{`...)
		}
		dst = jsontext.AppendHTML(append(jsontext.AppendHTML(dst, t.Key), ':'), t.Value)
		if i == len(h.Tags)-1 {
			dst = append(dst, '}')
		}
		dst = append(dst, ',')
	}
	dst = append(dst, `"columns":[`...)
	for i, name := range h.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendHTML(dst, name)
	}
	return append(dst, ']')
}

// close ends the open series.
func (f *jsonFormat) close() {
	if !f.open {
		return
	}
	if f.rows > 0 {
		f.text = append(f.text, ']')
	}
	f.text = append(f.text, '}')
	f.open = false
	f.flushStatement()
}

// flushStatement sends what is there when there is much of it.
func (f *jsonFormat) flushStatement() {
	if f.flushIfLong(); len(f.text) == 0 {
		f.start = -1
	}
}

// Row implements Format.
func (f *jsonFormat) Row(timeNs int64, values []Value) {
	if f.rows > 0 {
		f.text = append(f.text, ',')
	} else {
		f.text = append(f.text, `,"values":[`...)
	}
	f.rows++
	f.appendRow(timeNs, values)
	f.flushStatement()
}

// appendRow appends the array of one row.
func (p *page) appendRow(timeNs int64, values []Value) {
	p.text = append(p.text, '[')
	if p.timed {
		p.appendTime(timeNs, `"`)
	}
	for i := range values {
		if i > 0 || p.timed {
			p.text = append(p.text, ',')
		}
		p.text = appendValue(p.text, &values[i])
	}
	p.text = append(p.text, ']')
}

func appendValue(dst []byte, v *Value) []byte {
	switch v.Kind {
	case KindFloat:
		return decimal.AppendJSON(dst, v.Number)
	case KindInteger:
		return decimal.AppendPlain(dst, v.Number)
	case KindString:
		return jsontext.AppendHTML(dst, v.Text)
	case KindBoolean:
		if v.Number != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	}
	return append(dst, "null"...)
}

// EndStatement implements Format.
func (f *jsonFormat) EndStatement(end *Ending) {
	if end.Err != nil && f.start >= 0 {
		f.text = f.text[:f.start]
		f.statements--
		f.BeginStatement(f.statements)
	}
	f.close()
	if f.listed {
		f.text = append(f.text, ']')
	}
	f.text = appendEnding(f.text, end)
	f.text = append(f.text, '}')
}

// appendEnding appends the members of a result that follow its series.
func appendEnding(dst []byte, end *Ending) []byte {
	if end.Partial {
		dst = append(dst, `,"partial":true`...)
	}
	if end.Err != nil {
		dst = jsontext.AppendHTML(append(dst, `,"error":`...), end.Err.Error())
	}
	return dst
}

// End implements Format.
func (f *jsonFormat) End() {
	f.text = append(f.text, "]}\n"...)
	f.flush()
}
