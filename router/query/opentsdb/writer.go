package opentsdb

import (
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tickmesh/tickmesh/router/query/indent"
)

// answer is a response under way. Text is appended to buf and goes out when
// there is much of it, so no answer is held as a whole. Before the first bytes
// are out the answer can still become an error.
type answer struct {
	w    http.ResponseWriter
	buf  []byte
	out  io.Writer // w, or what indents before it
	sent bool      // bytes are out
	err  error     // of writing; later text is dropped
}

const (
	answerBytesFirst = 4 << 10
	answerBytesFlush = 32 << 10
)

// newAnswer starts an answer in the form that the request asks for.
func newAnswer(w http.ResponseWriter, parameters url.Values) *answer {
	a := &answer{w: w, out: w, buf: make([]byte, 0, answerBytesFirst)}
	if flag(parameters, "pretty") {
		a.out = indent.New(w, "  ")
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	return a
}

// flushIfLong sends the text when there is much of it.
func (a *answer) flushIfLong() error {
	if len(a.buf) < answerBytesFlush {
		return a.err
	}
	return a.flush()
}

func (a *answer) flush() error {
	if a.err == nil && len(a.buf) > 0 {
		a.sent = true
		_, a.err = a.out.Write(a.buf)
	}
	a.buf = a.buf[:0]
	return a.err
}

// close sends the rest.
func (a *answer) close() error {
	if !a.sent && a.out == io.Writer(a.w) {
		a.w.Header().Set("Content-Length", strconv.Itoa(len(a.buf)))
	}
	return a.flush()
}
