package promql

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/jsontext"
)

// encoder writes an answer. Text is appended to buf and goes out when there is much of it,
// so no answer is held as a whole. Before the first bytes are out the answer can still
// become an error.
type encoder struct {
	w      http.ResponseWriter
	buf    []byte
	sent   bool // bytes are out
	closed bool
	err    error // of writing; later text is dropped
	points pointWriter

	zips *sync.Pool   // of *gzip.Writer; nil: the answer is not compressed
	zip  *gzip.Writer // once bytes are out that are
}

const (
	encoderBytesFirst = 4 << 10
	encoderBytesFlush = 64 << 10
	encoderBytesPlain = 2 << 10 // what is not longer is not worth compressing
)

// newZips returns writers that compress fast, not much.
func newZips() *sync.Pool {
	return &sync.Pool{New: func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic("promql: " + err.Error()) // only for a level that there is not
		}
		return w
	}}
}

// acceptsGzip reports whether a client takes compressed answers.
func acceptsGzip(r *http.Request) bool {
	for clause := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(clause, ";")
		quality = strings.TrimSpace(quality)
		refused := strings.HasPrefix(quality, "q=0") && strings.Trim(quality, "q=0.") == ""
		if strings.EqualFold(strings.TrimSpace(name), "gzip") && !refused {
			return true
		}
	}
	return false
}

func newEncoder(w http.ResponseWriter) *encoder {
	return &encoder{w: w, buf: make([]byte, 0, encoderBytesFirst)}
}

// newEncoders returns encoders with the memory of answers before.
func newEncoders() *sync.Pool { return &sync.Pool{New: func() any { return newEncoder(nil) }} }

// encoderBytesKept bounds the memory that is used again.
const encoderBytesKept = 2 * encoderBytesFlush

// reuse makes an encoder ready for another answer.
func (e *encoder) reuse(w http.ResponseWriter) {
	buf := e.buf
	if cap(buf) > encoderBytesKept {
		buf = nil
	}
	*e = encoder{w: w, buf: buf[:0]}
}

const contentJSON = "application/json"

// begin starts the answer of a success, up to its data.
func (e *encoder) begin() {
	e.w.Header().Set("Content-Type", contentJSON)
	e.buf = append(e.buf, `{"status":"success","data":`...)
}

// end ends what begin has started, with what is to be said beside.
func (e *encoder) end(warnings, infos []string) {
	for _, list := range []struct {
		name  string
		texts []string
	}{{"warnings", warnings}, {"infos", infos}} {
		if len(list.texts) > 0 {
			e.buf = append(append(append(e.buf, `,"`...), list.name...), `":`...)
			e.texts(list.texts)
		}
	}
	e.buf = append(e.buf, '}')
}

// value writes a success whose data encoding/json writes. It is for small answers.
func (e *encoder) value(data any, warnings ...string) error {
	e.begin()
	if err := e.append(data); err != nil {
		return err
	}
	e.end(warnings, nil)
	return nil
}

// append writes what encoding/json makes of a value.
func (e *encoder) append(data any) error {
	text, err := json.Marshal(data)
	e.buf = append(e.buf, text...)
	return err
}

// fail writes an error in place of an answer of which nothing is out.
func (e *encoder) fail(err *apiError) {
	e.buf = append(e.buf[:0], `{"status":"error","errorType":`...)
	e.text(err.kind)
	e.buf = append(e.buf, `,"error":`...)
	e.text(err.err.Error())
	e.buf = append(e.buf, '}')
	header := e.w.Header()
	header.Set("Content-Type", contentJSON)
	header.Del("Content-Encoding")
	header.Del("Content-Disposition")
	header.Set("Content-Length", strconv.Itoa(len(e.buf)))
	e.w.WriteHeader(err.status)
	e.sent = true
	_, e.err = e.w.Write(e.buf)
}

// texts writes a list of strings.
func (e *encoder) texts(list []string) {
	e.buf = append(e.buf, '[')
	for i, text := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.text(text)
		e.flushIfLong()
	}
	e.buf = append(e.buf, ']')
}

// labels writes labels as an object.
func (e *encoder) labels(l labels.Labels) {
	e.buf = append(e.buf, '{')
	first := true
	l.Range(func(label labels.Label) {
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		e.text(label.Name)
		e.buf = append(e.buf, ':')
		e.text(label.Value)
	})
	e.buf = append(e.buf, '}')
}

// point writes [time,"value"].
func (e *encoder) point(timeMs int64, value float64) {
	e.buf = e.points.appendPoint(e.buf, timeMs, value)
}

// text writes a string. Bytes that are no UTF-8 become U+FFFD, as in encoding/json.
func (e *encoder) text(s string) { e.buf = jsontext.Append(e.buf, s) }

// flushIfLong sends the text when there is much of it.
func (e *encoder) flushIfLong() {
	if len(e.buf) >= encoderBytesFlush {
		e.flush()
	}
}

func (e *encoder) flush() {
	if e.err == nil && len(e.buf) > 0 {
		if !e.sent {
			e.beginZip()
		}
		e.sent = true
		if e.zip != nil {
			_, e.err = e.zip.Write(e.buf)
		} else {
			_, e.err = e.w.Write(e.buf)
		}
	}
	e.buf = e.buf[:0]
}

// beginZip begins to compress, where the client takes it and there is enough.
func (e *encoder) beginZip() {
	header := e.w.Header()
	if content := header.Get("Content-Type"); e.zips == nil || content != contentJSON && !strings.HasPrefix(content, "text/plain") {
		return
	}
	header.Add("Vary", "Accept-Encoding")
	if len(e.buf) <= encoderBytesPlain {
		return
	}
	e.zip, _ = e.zips.Get().(*gzip.Writer)
	e.zip.Reset(e.w)
	header.Del("Content-Length")
	header.Set("Content-Encoding", "gzip")
}

// close sends the rest.
func (e *encoder) close() error {
	if e.closed {
		return e.err
	}
	e.closed = true
	if !e.sent && len(e.buf) > 0 {
		e.w.Header().Set("Content-Length", strconv.Itoa(len(e.buf)))
	}
	e.flush()
	if e.zip != nil {
		if err := e.zip.Close(); e.err == nil {
			e.err = err
		}
		e.zips.Put(e.zip)
		e.zip = nil
	}
	return e.err
}
