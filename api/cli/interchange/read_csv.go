package interchange

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// Columns with a meaning of their own.
const (
	columnMetric = "metric"
	columnTags   = "tags"
	columnTimeMs = "time_ms"
	columnTime   = "time"
	columnValue  = "value"
)

// csvReader has the number of each column; -1: there is none.
type csvReader struct {
	metric, tags, timeMs, time, value int
	others                            []int // columns that are tags
	header                            []string
	options                           ReadOptions
}

func readCSV(in io.Reader, o ReadOptions, visit Visitor) error {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return rowError(rows, err)
	}
	c, err := newCSVReader(slices.Clone(header), o)
	if err != nil {
		return rowError(rows, err)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return rowError(rows, err)
		}
		key, timeMs, value, err := c.sample(row)
		if err != nil {
			return rowError(rows, err)
		}
		if err := visit(key, timeMs, value); err != nil {
			return err
		}
	}
}

func rowError(rows *csv.Reader, err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return &PlaceError{"line", int64(parse.Line), fmt.Errorf("%w: %w", ErrFormat, parse.Err)}
	}
	if errors.Is(err, ErrFormat) {
		line, _ := rows.FieldPos(0)
		return &PlaceError{"line", int64(line), err}
	}
	return err
}

func newCSVReader(header []string, o ReadOptions) (*csvReader, error) {
	c := &csvReader{options: o, header: header}
	find := func(name string) int { return slices.Index(header, name) }
	c.metric, c.tags, c.timeMs, c.time, c.value = find(columnMetric), find(columnTags), find(columnTimeMs), find(columnTime), find(columnValue)
	if c.metric < 0 || c.value < 0 || (c.timeMs < 0) == (c.time < 0) {
		return nil, fmt.Errorf("%w: expected the columns %s, %s, and one of %s and %s; found %q",
			ErrFormat, columnMetric, columnValue, columnTimeMs, columnTime, header)
	}
	for i := range header {
		if !slices.Contains([]int{c.metric, c.tags, c.timeMs, c.time, c.value}, i) {
			c.others = append(c.others, i)
		}
	}
	return c, nil
}

func (c *csvReader) sample(row []string) (key series.Key, timeMs int64, value float64, err error) {
	metric, rest, err := cutCSVText(row[c.metric])
	if err != nil || rest != "" {
		return nil, 0, 0, fmt.Errorf("%w: metric %q: a backslash belongs before %q", ErrFormat, row[c.metric], rest)
	}
	var tags []series.Tag
	if c.tags >= 0 {
		if tags, err = parseCSVTags(row[c.tags]); err != nil {
			return nil, 0, 0, err
		}
	}
	for _, i := range c.others {
		if row[i] != "" {
			tags = append(tags, series.Tag{Name: []byte(c.header[i]), Value: []byte(row[i])})
		}
	}
	if key, err = keyOf(c.options.Database, metric, tags); err != nil {
		return nil, 0, 0, err
	}
	if timeMs, err = c.timeOf(row); err != nil {
		return nil, 0, 0, err
	}
	value, err = parseCSVValue(row[c.value])
	return key, timeMs, value, err
}

func (c *csvReader) timeOf(row []string) (int64, error) {
	if c.timeMs >= 0 {
		return parseTimeMs(row[c.timeMs])
	}
	t, err := time.Parse(time.RFC3339Nano, row[c.time])
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no time in RFC 3339", ErrFormat, row[c.time])
	}
	return t.UnixMilli(), nil
}

func parseCSVValue(text string) (float64, error) {
	if bits, ok := strings.CutPrefix(text, "0x"); ok && len(bits) == 16 {
		return parseBits(bits)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: value %q is no number", ErrFormat, text)
	}
	return v, nil
}

// appendCSVText appends a name or value so that cutCSVText finds its end.
func appendCSVText(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r):
			for _, b := range text[:n] {
				dst = fmt.Appendf(dst, `\x%02x`, b)
			}
		case r == '\\' || r == ',' || r == '=':
			dst = append(dst, '\\', byte(r))
		default:
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}

// cutCSVText returns the text up to the first comma or = that has no backslash before
// it, and what is left from there. Errors: ErrFormat.
func cutCSVText(s string) (text []byte, rest string, err error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ',', '=':
			return text, s[i:], nil
		case '\\':
			b, n, err := unescapeCSV(s[i+1:])
			if err != nil {
				return nil, "", err
			}
			text = append(text, b)
			i += n
		default:
			text = append(text, s[i])
		}
	}
	return text, "", nil
}

// unescapeCSV returns what stands behind a backslash, and its length.
func unescapeCSV(s string) (b byte, n int, err error) {
	if len(s) >= 3 && s[0] == 'x' {
		if v, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return byte(v), 3, nil
		}
	}
	if len(s) > 0 && strings.IndexByte(`\,=`, s[0]) >= 0 {
		return s[0], 1, nil
	}
	return 0, 0, fmt.Errorf(`%w: expected \\, \,, \= or \xNN, not \%.3q`, ErrFormat, s)
}

// parseCSVTags reads name=value,… Errors: ErrFormat.
func parseCSVTags(s string) (tags []series.Tag, err error) {
	for s != "" {
		var t series.Tag
		if t.Name, s, err = cutCSVText(s); err != nil {
			return nil, err
		}
		if s == "" || s[0] != '=' {
			return nil, fmt.Errorf("%w: tag %q has no value", ErrFormat, t.Name)
		}
		if t.Value, s, err = cutCSVText(s[1:]); err != nil {
			return nil, err
		}
		tags = append(tags, t)
		if s == "" {
			break
		}
		if s[0] != ',' || len(s) == 1 {
			return nil, fmt.Errorf("%w: expected another tag behind %q", ErrFormat, t.Name)
		}
		s = s[1:]
	}
	return tags, nil
}
