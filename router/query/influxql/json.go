package influxql

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

func (f *jsonFormat) begin() {
	f.held = pageBytesHeld
	f.text = append(f.text, `{"results":[`...)
}

func (f *jsonFormat) beginStatement(id int) {
	f.start = len(f.text)
	if f.statements > 0 {
		f.text = append(f.text, ',')
	}
	f.statements++
	f.text = strconv.AppendInt(append(f.text, `{"statement_id":`...), int64(id), 10)
	f.listed, f.open = false, false
}

func (f *jsonFormat) series(h *head) {
	f.close()
	if f.listed {
		f.text = append(f.text, ',')
	} else {
		f.text = append(f.text, `,"series":[`...)
	}
	f.listed, f.open, f.rows = true, true, 0
	f.timed, f.zone = h.timed, h.zone
	f.text = appendHead(f.text, h)
}

// appendHead appends the beginning of a series, as far as its values.
func appendHead(dst []byte, h *head) []byte {
	dst = append(dst, '{')
	if h.name != "" {
		dst = append(jsontext.AppendHTML(append(dst, `"name":`...), h.name), ',')
	}
	for i, t := range h.tags {
		if i == 0 {
			dst = append(dst, `"tags":{`...)
		}
		dst = jsontext.AppendHTML(append(jsontext.AppendHTML(dst, t.key), ':'), t.value)
		if i == len(h.tags)-1 {
			dst = append(dst, '}')
		}
		dst = append(dst, ',')
	}
	dst = append(dst, `"columns":[`...)
	for i, name := range h.columns {
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

func (f *jsonFormat) row(timeNs int64, values []value) {
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
func (p *page) appendRow(timeNs int64, values []value) {
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

func appendValue(dst []byte, v *value) []byte {
	switch v.kind {
	case kindFloat:
		return decimal.AppendJSON(dst, v.number)
	case kindInteger:
		return decimal.AppendPlain(dst, v.number)
	case kindString:
		return jsontext.AppendHTML(dst, v.text)
	case kindBoolean:
		if v.number != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	}
	return append(dst, "null"...)
}

func (f *jsonFormat) endStatement(end *ending) {
	if end.err != nil && f.start >= 0 {
		f.text = f.text[:f.start]
		f.statements--
		f.beginStatement(f.statements)
	}
	f.close()
	if f.listed {
		f.text = append(f.text, ']')
	}
	f.text = appendEnding(f.text, end)
	f.text = append(f.text, '}')
}

// appendEnding appends the members of a result that follow its series.
func appendEnding(dst []byte, end *ending) []byte {
	if end.partial {
		dst = append(dst, `,"partial":true`...)
	}
	if end.err != nil {
		dst = jsontext.AppendHTML(append(dst, `,"error":`...), end.err.Error())
	}
	return dst
}

func (f *jsonFormat) end() {
	f.text = append(f.text, "]}\n"...)
	f.flush()
}
