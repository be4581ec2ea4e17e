package influxql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/router/query/decimal"
)

// csvFormat writes rows with the columns name, tags and those of the series. A statement
// without a series leaves no trace; an error is a table of its own.
type csvFormat struct {
	page
	tables  int      // that were begun
	columns []string // of the open table; nil: none of this statement
	prefix  []byte   // name and tags of the open series
}

func (f *csvFormat) begin() { f.held = pageBytesFlush }

func (f *csvFormat) beginStatement(int) { f.columns = nil }

// table begins a table.
func (f *csvFormat) table(columns ...string) {
	if f.tables > 0 {
		f.text = append(f.text, '\n')
	}
	f.tables++
	for i, name := range columns {
		if i > 0 {
			f.text = append(f.text, ',')
		}
		f.text = appendField(f.text, name)
	}
	f.text = append(f.text, '\n')
}

func (f *csvFormat) series(h *head) {
	if f.columns == nil || !slices.Equal(f.columns, h.columns) {
		f.columns = slices.Clone(h.columns)
		f.table(append([]string{"name", "tags"}, h.columns...)...)
	}
	f.timed, f.zone = h.timed, h.zone
	var tags []byte
	for _, t := range h.tags {
		if t.value == "" { // as InfluxDB leaves them out here
			continue
		}
		if len(tags) > 0 {
			tags = append(tags, ',')
		}
		tags = append(append(append(tags, escapeTag(t.key)...), '='), escapeTag(t.value)...)
	}
	f.prefix = append(appendField(f.prefix[:0], h.name), ',')
	f.prefix = appendField(f.prefix, string(tags))
}

// escapeTag writes a tag's name or value as line protocol does.
func escapeTag(s string) string {
	return strings.NewReplacer(",", `\,`, " ", `\ `, "=", `\=`).Replace(s)
}

// appendField appends a field as encoding/csv writes it.
func appendField(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	quoted := s == `\.` || strings.ContainsAny(s, ",\"\r\n") || s[0] == ' ' || s[0] == '\t'
	if !quoted {
		return append(dst, s...)
	}
	return append(append(append(dst, '"'), strings.ReplaceAll(s, `"`, `""`)...), '"')
}

func (f *csvFormat) row(timeNs int64, values []value) {
	f.text = append(f.text, f.prefix...)
	if f.timed {
		per := max(f.per, 1) // CSV knows no times as text
		f.text = strconv.AppendInt(append(f.text, ','), timeNs/per, 10)
	}
	for i := range values {
		f.text = append(f.text, ',')
		switch v := &values[i]; v.kind {
		case kindFloat, kindInteger:
			f.text = decimal.AppendPlain(f.text, v.number)
		case kindString:
			f.text = appendField(f.text, v.text)
		case kindBoolean:
			f.text = strconv.AppendBool(f.text, v.number != 0)
		}
	}
	f.text = append(f.text, '\n')
	f.flushIfLong()
}

func (f *csvFormat) endStatement(end *ending) {
	if end.err != nil {
		f.table("error")
		f.text = append(appendField(f.text, end.err.Error()), '\n')
	}
}

func (f *csvFormat) end() { f.flush() }
