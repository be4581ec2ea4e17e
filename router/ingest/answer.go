package ingest

import (
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/api/processor"
)

// answer is the http.ResponseWriter of one question. It holds the start of the answer, so that a
// short one has a Content-Length and a handler that fails early can still say so.
type answer struct {
	to        http.ResponseWriter
	request   *http.Request
	path      []byte // behind the database
	conn      *conn
	front     *front
	work      *processor.Work // of the handler
	bytesHeld int

	header    http.Header // the handler's
	frozen    http.Header // as it was when the status was set
	status    int
	held      []byte // written, not yet sent
	length    int    // of all that was written
	streaming bool   // the header is sent
	finished  bool
	aborted   bool // the handler gave up in the middle of its answer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. Informational answers are not sent.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
		a.frozen = a.header.Clone() // later changes have no effect
	}
}

// hasBody reports whether an answer of the status, to the method, has a body.
func (a *answer) hasBody() bool {
	return a.request.Method != http.MethodHead && a.status != http.StatusNoContent && a.status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.held == nil {
		a.held = a.front.takeHeld()
	}
	a.length += len(p)
	if !a.hasBody() {
		if a.request.Method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	total := len(p)
	for len(p) > 0 {
		room := a.bytesHeld - len(a.held)
		if room == 0 {
			if err := a.send(); err != nil {
				return total - len(p), err
			}
			continue
		}
		n := min(room, len(p))
		a.held, p = append(a.held, p[:n]...), p[n:]
	}
	return total, nil
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	if !a.hasBody() {
		return nil
	}
	return a.send()
}

// send sends what is held, the header first, to the client.
func (a *answer) send() error {
	a.begin()
	if a.work.Idle() { // what writes without one may be waiting most of its time, as a trace does
		defer a.work.Pace()
	}
	if len(a.held) > 0 {
		_, err := a.to.Write(a.held)
		if a.held = a.held[:0]; err != nil {
			return err
		}
	}
	return http.NewResponseController(a.to).Flush()
}

// begin sends the header.
func (a *answer) begin() {
	if a.streaming {
		return
	}
	a.streaming = true
	to := a.to.Header()
	for name, values := range a.frozen {
		if name != "Content-Length" || a.request.Method == http.MethodHead {
			if before := to[name]; len(before) > 0 {
				values = append(before, values...)
			}
			to[name] = values // frozen has it to itself
		}
	}
	if a.status == http.StatusUnauthorized {
		a.front.challenge(to, a.path)
	}
	if a.front.draining.Load() {
		to.Set("Connection", "close")
	}
	a.to.WriteHeader(a.status)
}

// finish sends what is left of the answer once the handler has returned.
func (a *answer) finish() {
	if a.finished {
		return
	}
	a.finished = true
	a.WriteHeader(http.StatusOK)
	switch {
	case a.aborted:
	case a.streaming:
		_ = a.send() // the client has gone
	default:
		switch {
		case a.hasBody():
			a.to.Header().Set("Content-Length", strconv.Itoa(len(a.held)))
		case a.request.Method == http.MethodHead && a.length > 0 && a.frozen.Get("Content-Length") == "":
			a.to.Header().Set("Content-Length", strconv.Itoa(a.length))
		}
		a.begin()
		if len(a.held) > 0 {
			_, _ = a.to.Write(a.held)
		}
	}
	a.front.keepHeld(a.held)
	a.held = nil
}

// takeHeld returns memory for what is held of an answer, from one before where there is some. Nothing of it is nil.
func (f *front) takeHeld() []byte {
	if held, ok := f.helds.Get().(*[]byte); ok {
		return (*held)[:0]
	}
	return []byte{}
}

// keepHeld takes the memory of an answer that has ended; it is never more than Limits.OtherAnswerBytesHeld, about.
func (f *front) keepHeld(held []byte) {
	if cap(held) > 0 {
		f.helds.Put(&held)
	}
}

// runHandler runs a handler, and answers 500 if it panics before its answer is under way.
func (a *answer) runHandler(handler http.Handler, r *http.Request) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value
			a.front.options.Logger.Error("a handler panicked", "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
		}
		a.status, a.held = 0, nil
		a.aborted = a.streaming
		a.header = http.Header{"Connection": {"close"}}
		a.respond(http.StatusInternalServerError, contentJSON,
			appendPutError(nil, http.StatusInternalServerError, "Internal Server Error", ""))
	}()
	handler.ServeHTTP(a, r)
}

// respond answers as a whole. A 503 asks the client to come back.
func (a *answer) respond(status int, contentType string, body []byte) {
	a.header.Set("Content-Type", contentType)
	if status == http.StatusServiceUnavailable {
		a.header.Set("Retry-After", retryAfterSeconds)
	}
	a.WriteHeader(status)
	_, _ = a.Write(body)
}

// leaveBody notes that the rest of the request's body is not read, so that its connection cannot go
// on. A client that is still sending gets the time to read its answer.
func (a *answer) leaveBody() {
	if a.request.ContentLength == 0 {
		return
	}
	a.header.Set("Connection", "close")
	_ = http.NewResponseController(a.to).EnableFullDuplex() // the answer does not wait for the body
	a.conn.linger.Store(true)
	_ = a.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// answerHeader is the header of an answer of either server.
type answerHeader interface {
	Add(name, value string)
	Set(name, value string)
}
