package promql

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Bounds of what the parameter format may ask for.
const (
	csvFieldsMax      = 1_000
	csvFormatBytesMax = 16 << 10
)

// csvTime names a time, perhaps with a form behind it.
const csvTime = "__timestamp__"

// rfc3339Milli is how VictoriaMetrics writes times.
const rfc3339Milli = "2006-01-02T15:04:05.999Z07:00"

// csvField is a field of each line.
type csvField struct {
	name   string                            // as it was asked for
	append func(dst []byte, ms int64) []byte // of a time; nil: it is none
	value  bool                              // the sample's
}

// csvFields reads the parameter format: names of labels, __value__, and __timestamp__, perhaps with :unix_s, :unix_ms,
// :unix_ns, :rfc3339 or :custom:LAYOUT behind it.
func csvFields(text string) ([]csvField, error) {
	if text == "" {
		return nil, errors.New("it names the fields of a line, as in __name__,host,__value__,__timestamp__:unix_ms")
	}
	if strings.Count(text, ",") >= csvFieldsMax || len(text) > csvFormatBytesMax {
		return nil, fmt.Errorf("it has more than %d fields or %d bytes", csvFieldsMax, csvFormatBytesMax)
	}
	var fields []csvField
	for name := range strings.SplitSeq(text, ",") {
		f := csvField{name: name, value: name == "__value__"}
		if form, ok := strings.CutPrefix(name, csvTime); ok && (form == "" || form[0] == ':') {
			if f.append = csvTimeOf(form); f.append == nil {
				return nil, fmt.Errorf("%q has no known form; use unix_s, unix_ms, unix_ns, rfc3339 or custom:LAYOUT", name)
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// csvTimeOf returns what writes times in a form; nil: there is no such form.
func csvTimeOf(form string) func(dst []byte, ms int64) []byte {
	whole := func(of func(ms int64) int64) func([]byte, int64) []byte {
		return func(dst []byte, ms int64) []byte { return strconv.AppendInt(dst, of(ms), 10) }
	}
	layout, custom := strings.CutPrefix(form, ":custom:")
	switch {
	case form == "" || form == ":unix_ms":
		return whole(func(ms int64) int64 { return ms })
	case form == ":unix_s":
		return whole(func(ms int64) int64 { return time.UnixMilli(ms).Unix() })
	case form == ":unix_ns":
		return func(dst []byte, ms int64) []byte {
			if dst = strconv.AppendInt(dst, ms, 10); ms != 0 {
				dst = append(dst, "000000"...) // a year from 2262 on has no int64 of nanoseconds
			}
			return dst
		}
	case form == ":rfc3339":
		layout, custom = rfc3339Milli, true
	}
	if !custom {
		return nil
	}
	return func(dst []byte, ms int64) []byte { return appendCSV(dst, time.UnixMilli(ms).UTC().Format(layout)) }
}

// exportCSV serves /api/v1/export/csv as VictoriaMetrics does: a line of the names of the fields, and one for each sample,
// as they are read. Fields are quoted as in RFC 4180, which VictoriaMetrics reads and does not write.
func (h *handler) exportCSV(x *exchange) error {
	e, err := h.exportOf(x)
	if err != nil {
		return err
	}
	fields, err := csvFields(x.form.Get("format"))
	if err != nil {
		return invalidParameter(err, "format")
	}
	x.out.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	for i := range fields {
		x.out.buf = appendCSV(appendComma(x.out.buf, i), fields[i].name)
	}
	x.out.buf = append(x.out.buf, '\n')
	lines := csvLines{out: x.out, fields: fields}
	return e.each(x, lines.visit)
}

// csvLines writes the lines of an export.
type csvLines struct {
	out    *encoder
	fields []csvField
	naming naming
}

func (c *csvLines) visit(chunk *scan.Chunk) error {
	named, err := c.naming.labels(chunk.Key)
	if err != nil {
		return err
	}
	for i, ms := range chunk.Times {
		for j := range c.fields {
			c.field(&c.fields[j], j, named, ms, chunk.Values[i])
		}
		c.out.buf = append(c.out.buf, '\n')
		if c.out.err != nil {
			return c.out.err
		}
	}
	return nil
}

func (c *csvLines) field(f *csvField, i int, named labels.Labels, ms int64, v float64) {
	buf := appendComma(c.out.buf, i)
	switch {
	case f.value:
		buf = appendPlain(buf, v)
	case f.append != nil:
		buf = f.append(buf, ms)
	default:
		buf = appendCSV(buf, named.Get(f.name))
	}
	c.out.buf = buf
	c.out.flushIfLong()
}

// appendPlain appends a value without an exponent, as VictoriaMetrics writes it. A staleness marker is NaN.
func appendPlain(dst []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(dst, "+Inf"...)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

func appendComma(dst []byte, field int) []byte {
	if field > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// appendCSV appends a field, in quotes where it needs them.
func appendCSV(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, "\",\r\n") && !strings.HasPrefix(s, "'") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}
