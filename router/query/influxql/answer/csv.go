package answer

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

// Begin implements Format.
func (f *csvFormat) Begin() { f.held = pageBytesFlush }

// BeginStatement implements Format.
func (f *csvFormat) BeginStatement(int) { f.columns = nil }

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

// Series implements Format.
func (f *csvFormat) Series(h *Head) {
	if f.columns == nil || !slices.Equal(f.columns, h.Columns) {
		f.columns = slices.Clone(h.Columns)
		f.table(append([]string{"name", "tags"}, h.Columns...)...)
	}
	f.timed, f.zone = h.Timed, h.Zone
	var tags []byte
	for _, t := range h.Tags {
		if t.Value == "" { // as InfluxDB leaves them out here
			continue
		}
		if len(tags) > 0 {
			tags = append(tags, ',')
		}
		tags = append(append(append(tags, EscapeTag(t.Key)...), '='), EscapeTag(t.Value)...)
	}
	f.prefix = append(appendField(f.prefix[:0], h.Name), ',')
	f.prefix = appendField(f.prefix, string(tags))
}

// EscapeTag writes a tag's name or value as line protocol does.
func EscapeTag(s string) string {
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

// Row implements Format.
func (f *csvFormat) Row(timeNs int64, values []Value) {
	f.text = append(f.text, f.prefix...)
	if f.timed {
		per := max(f.per, 1) // CSV has no times as text
		f.text = strconv.AppendInt(append(f.text, ','), timeNs/per, 10)
	}
	for i := range values {
		f.text = append(f.text, ',')
		switch v := &values[i]; v.Kind {
		case KindFloat, KindInteger:
			f.text = decimal.AppendPlain(f.text, v.Number)
		case KindString:
			f.text = appendField(f.text, v.Text)
		case KindBoolean:
			f.text = strconv.AppendBool(f.text, v.Number != 0)
		}
	}
	f.text = append(f.text, '\n')
	f.flushIfLong()
}

// EndStatement implements Format.
func (f *csvFormat) EndStatement(end *Ending) {
	if end.Err != nil {
		f.table("error")
		f.text = append(appendField(f.text, end.Err.Error()), '\n')
	}
}

// End implements Format.
func (f *csvFormat) End() { f.flush() }
