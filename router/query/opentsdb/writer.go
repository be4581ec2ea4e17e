package opentsdb

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

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

// newAnswers returns answers with the memory of those before.
func newAnswers() *sync.Pool {
	return &sync.Pool{New: func() any { return &answer{buf: make([]byte, 0, answerBytesFirst)} }}
}

const (
	answerBytesFirst = 4 << 10
	answerBytesFlush = 32 << 10
	answerBytesKept  = 2 * answerBytesFlush // of the memory that is used again
)

// begin starts an answer in the form that the request asks for.
func (a *answer) begin(w http.ResponseWriter, parameters url.Values) {
	*a = answer{w: w, out: w, buf: a.buf[:0]}
	if flag(parameters, "pretty") {
		a.out = indent.New(w, "  ")
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
}

// forget lets go of the request once it is answered, and of a buffer that has become large.
func (a *answer) forget() {
	if cap(a.buf) > answerBytesKept {
		a.buf = nil
	}
	*a = answer{buf: a.buf}
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
