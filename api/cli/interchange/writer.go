package interchange

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Writer writes samples as text.
type Writer struct {
	out    *bufio.Writer
	format sampleWriter

	key     series.Key // of the series written last
	private int64
}

// sampleWriter writes one format.
type sampleWriter interface {
	begin(out *bufio.Writer) error
	// series is the one whose samples follow.
	series(identity) error
	// sample writes one, and reports whether its format has no words of its own for it.
	sample(out *bufio.Writer, timeMs int64, value float64) (private bool, err error)
	end(out *bufio.Writer) error
}

// NewWriter makes a Writer. Errors: ErrFormat for an unknown format, those of out.
func NewWriter(format Format, out io.Writer) (*Writer, error) {
	w := &Writer{out: bufio.NewWriterSize(out, 256<<10)}
	switch format {
	case Line:
		w.format = &lineWriter{}
	case CSV:
		w.format = &csvWriter{}
	case JSON:
		w.format = &jsonWriter{}
	default:
		return nil, fmt.Errorf("%w: format %q", ErrFormat, format)
	}
	return w, w.format.begin(w.out)
}

// Write writes samples of one series. The database of the key is left out. Errors:
// series.ErrKey, those of the output.
func (w *Writer) Write(key series.Key, timesMs []int64, values []float64) error {
	if w.key == nil || !bytes.Equal(w.key, key) {
		id, err := identityOf(key)
		if err != nil {
			return err
		}
		if err := w.format.series(id); err != nil {
			return err
		}
		w.key = bytes.Clone(key)
	}
	for i, ms := range timesMs {
		private, err := w.format.sample(w.out, ms, values[i])
		if err != nil {
			return err
		}
		if private {
			w.private++
		}
	}
	return nil
}

// Private returns the samples for which the format has no words of its own: only a
// Reader of this package knows them.
func (w *Writer) Private() int64 { return w.private }

// Close ends the text. It does not close the output.
func (w *Writer) Close() error {
	if err := w.format.end(w.out); err != nil {
		return err
	}
	return w.out.Flush()
}

// lineWriter writes line protocol.
type lineWriter struct {
	head    []byte // "metric,tag=value field=", or empty: it cannot be said
	private []byte // "#tickmesh key "
	text    []byte
}

// linePrivate begins a comment that holds a sample.
const linePrivate = "#tickmesh "

func (l *lineWriter) begin(*bufio.Writer) error { return nil }
func (l *lineWriter) end(*bufio.Writer) error   { return nil }

func (l *lineWriter) series(id identity) error {
	l.private = append(append(l.private[:0], linePrivate...), base64.StdEncoding.EncodeToString(id.key)...)
	l.private = append(l.private, ' ')
	l.head = appendLineHead(l.head[:0], id)
	// Whether it says the same is asked of the parser.
	if !readsAs(append(l.head[:len(l.head):len(l.head)], "1 0\n"...), id.key) {
		l.head = l.head[:0]
	}
	return nil
}

func appendLineHead(dst []byte, id identity) []byte {
	field := []byte("value")
	dst = appendEscaped(dst, id.metric, ", ")
	for _, t := range id.tags {
		if string(t.Name) == series.FieldTagName {
			field = t.Value
			continue
		}
		dst = appendEscaped(append(dst, ','), t.Name, ",= ")
		dst = appendEscaped(append(dst, '='), t.Value, ",= ")
	}
	return append(appendEscaped(append(dst, ' '), field, ",= "), '=')
}

func appendEscaped(dst, text []byte, special string) []byte {
	for _, c := range text {
		if bytes.IndexByte([]byte(special), c) >= 0 {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// readsAs reports whether the line is one point of the series.
func readsAs(line []byte, key series.Key) bool {
	same, points := true, 0
	r := newLineReader(bytes.NewReader(line), ReadOptions{})
	err := r.read(func(k series.Key, _ int64, _ float64) error {
		points++
		same = same && bytes.Equal(k, key)
		return nil
	})
	return err == nil && same && points == 1
}

func (l *lineWriter) sample(out *bufio.Writer, timeMs int64, value float64) (bool, error) {
	const nsPerMs = 1_000_000
	timeFits := timeMs > math.MinInt64/nsPerMs && timeMs < math.MaxInt64/nsPerMs
	private := len(l.head) == 0 || !timeFits || !isFinite(value)
	if private {
		l.text = append(strconv.AppendInt(append(l.text[:0], l.private...), timeMs, 10), ' ')
		l.text = appendBits(l.text, value)
	} else {
		l.text = append(appendFloat(append(l.text[:0], l.head...), value), ' ')
		l.text = strconv.AppendInt(l.text, timeMs*nsPerMs, 10)
	}
	_, err := out.Write(append(l.text, '\n'))
	return private, err
}

// jsonWriter writes OpenTSDB's datapoints.
type jsonWriter struct {
	began   bool
	head    []byte // `{"metric":…,"tags":{…},`, or empty: it cannot be said
	private []byte // `{"key":…,`
	text    []byte
}

func (j *jsonWriter) begin(out *bufio.Writer) error { return out.WriteByte('[') }

func (j *jsonWriter) end(out *bufio.Writer) error {
	_, err := out.WriteString("\n]\n")
	return err
}

func (j *jsonWriter) series(id identity) error {
	j.private = fmt.Appendf(j.private[:0], `{"key":"%s",`, base64.StdEncoding.EncodeToString(id.key))
	j.head = j.head[:0]
	text := utf8.Valid(id.metric)
	tags := map[string]string{}
	for _, t := range id.tags {
		text = text && utf8.Valid(t.Name) && utf8.Valid(t.Value)
		tags[string(t.Name)] = string(t.Value)
	}
	if !text {
		return nil
	}
	metric, err := json.Marshal(string(id.metric))
	if err != nil {
		return err
	}
	object, err := json.Marshal(tags)
	j.head = fmt.Appendf(j.head, `{"metric":%s,"tags":%s,`, metric, object)
	return err
}

// Times that /api/put takes for milliseconds.
const (
	putTimeMsMin = 10_000_000_000
	putTimeMsMax = 9_999_999_999_999
)

func (j *jsonWriter) sample(out *bufio.Writer, timeMs int64, value float64) (bool, error) {
	comma := ",\n"
	if !j.began {
		j.began, comma = true, "\n"
	}
	j.text = append(j.text[:0], comma...)
	private := len(j.head) == 0 || timeMs < putTimeMsMin || timeMs > putTimeMsMax || !isFinite(value)
	if private {
		j.text = append(append(j.text, j.private...), `"timestamp_ms":`...)
		j.text = append(strconv.AppendInt(j.text, timeMs, 10), `,"bits":"`...)
		j.text = append(appendBits(j.text, value), `"}`...)
	} else {
		j.text = append(append(j.text, j.head...), `"timestamp":`...)
		j.text = append(strconv.AppendInt(j.text, timeMs, 10), `,"value":`...)
		j.text = append(appendFloat(j.text, value), '}')
	}
	_, err := out.Write(j.text)
	return private, err
}

// csvWriter writes rows.
type csvWriter struct {
	rows   *csv.Writer
	record [4]string
}

func (c *csvWriter) begin(out *bufio.Writer) error {
	c.rows = csv.NewWriter(out)
	return c.rows.Write([]string{columnMetric, columnTags, columnTimeMs, columnValue})
}

func (c *csvWriter) end(*bufio.Writer) error {
	c.rows.Flush()
	return c.rows.Error()
}

func (c *csvWriter) series(id identity) error {
	var tags []byte
	for i, t := range id.tags {
		if i > 0 {
			tags = append(tags, ',')
		}
		tags = appendCSVText(tags, t.Name)
		tags = appendCSVText(append(tags, '='), t.Value)
	}
	c.record[0], c.record[1] = string(appendCSVText(nil, id.metric)), string(tags)
	return nil
}

func (c *csvWriter) sample(_ *bufio.Writer, timeMs int64, value float64) (bool, error) {
	c.record[2] = strconv.FormatInt(timeMs, 10)
	switch {
	case math.IsNaN(value) && math.Float64bits(value) != math.Float64bits(math.NaN()):
		c.record[3] = string(appendBits([]byte("0x"), value))
	default:
		c.record[3] = strconv.FormatFloat(value, 'g', -1, 64)
	}
	return false, c.rows.Write(c.record[:])
}

// largest limits: what a server takes is up to it.
func largestLimits() parse.Limits {
	return parse.Limits{LineBytesMax: lineBytesMax, TagsMax: series.TagsMax, KeyBytesMax: series.KeyBytesMax, ErrorsMax: 1}
}
