package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"github.com/tickmesh/tickmesh/api/processor"
)

// serveOther serves a request by Options.Other, with the semantics of net/http:
// the handler runs until it returns, its answer streams once it is flushed or
// outgrows what is held, and the request's context ends when the client hangs
// up, the answer cannot be sent or the server's time is up. Bodies are read
// before the handler runs; they and what is held of answers are charged to the budget of reads. Trailers and hijacking are not offered.
func (f *front) serveOther(request *fasthttp.RequestCtx, c *caller) {
	handler := f.options.Other
	if handler == nil {
		leaveBody(request)
		respond(request, fasthttp.StatusNotFound, contentJSON,
			appendPutError(nil, fasthttp.StatusNotFound, "Endpoint not found", "The requested endpoint was not found"))
		return
	}
	held := &body{base: f.base, limits: &f.options.Limits, lease: f.budgets.Reads.Lease(c.owner(request))}
	if own, ok := request.Conn().(*conn); ok {
		held.watch = func(ctx context.Context) (context.Context, func()) {
			return own.whileWaiting(ctx, f.options.Limits.HTTPReadTimeout)
		}
	}
	content, err := held.readOther(f.base, request)
	if err == nil && !isOpen(request) { // whoever asks how the server is waits for nobody
		err = held.charge(f.base, f.options.Limits.answerBytes())
	}
	if err != nil {
		held.release()
		leaveBody(request)
		respond(request, statusOf(err), contentJSON, appendPutError(nil, statusOf(err), messageOf(err), ""))
		return
	}
	ctx, cancel := context.WithCancelCause(f.context(f.base, c))
	r, err := ordinaryRequest(ctx, request, c.prefixed, content)
	if err != nil {
		cancel(nil)
		held.release()
		respond(request, fasthttp.StatusBadRequest, contentJSON,
			appendPutError(nil, fasthttp.StatusBadRequest, "Bad request", err.Error()))
		return
	}
	audited := f.auditOther(request, c)
	a := newAnswer(request, f.options, cancel)
	watch := func() {}
	if c, ok := request.Conn().(*conn); ok {
		a.conn = c
		watch = c.watchHangUp(func() { cancel(errHungUp) })
	}
	a.release = func() { // once, after the handler has returned
		watch()
		cancel(nil)
		held.release()
		audited(a)
	}
	owner := processorOwner(c.owner(request))
	go a.run(func() {
		ctx, work := f.options.Processors.Begin(ctx, owner)
		defer work.EndAll()
		if len(r.RequestURI)+len(content) > textBytesLight {
			work.Heavy()
		}
		a.work = work
		handler.ServeHTTP(a, r.WithContext(ctx))
	}, f, r.URL.Path)
	<-a.ready
	a.respond(request)
}

// textBytesLight is the text of a request, target and body, that any parser is through with in a
// millisecond or two. Longer ones are heavy work from the start: parsers cannot be paced.
const textBytesLight = 512

var errHungUp = fmt.Errorf("the client has hung up: %w", context.Canceled)

// ordinaryRequest makes the net/http form of a request; prefixed: of the target, the path
// is the one that is left behind the database.
func ordinaryRequest(ctx context.Context, request *fasthttp.RequestCtx, prefixed bool, body []byte) (*http.Request, error) {
	target := string(request.RequestURI())
	if prefixed {
		target = string(request.URI().PathOriginal())
		if query := request.URI().QueryString(); len(query) > 0 {
			target += "?" + string(query)
		}
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	// Go leaves out parameters with a semicolon; writes take it as a character of their
	// database, and so do the readers of that database.
	u.RawQuery = strings.ReplaceAll(u.RawQuery, ";", "%3B")
	r := &http.Request{
		Method: string(request.Method()), URL: u, RequestURI: target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Host: string(request.Host()),
		Body: http.NoBody, ContentLength: int64(len(body)), RemoteAddr: request.RemoteAddr().String(),
	}
	if !request.Request.Header.IsHTTP11() {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	for name, value := range request.Request.Header.All() {
		switch key := http.CanonicalHeaderKey(string(name)); key {
		case fasthttp.HeaderHost, fasthttp.HeaderTransferEncoding:
		default:
			r.Header.Add(key, string(value))
		}
	}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.WithContext(ctx), nil
}

// watchHangUp calls hungUp when the client closes its side while a request is at
// work. The function that it gives ends the watch and must be called before the
// connection is read again.
func (c *conn) watchHangUp(hungUp func()) (stop func()) {
	_ = c.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		more, err := c.awaitMore()
		if err == nil && more { // bytes of the next request hide the end behind them
			err = c.awaitEnd()
		}
		if err == nil {
			hungUp()
		}
		if err != nil && !errors.Is(err, errDeadline) {
			hungUp() // the connection was closed on this side
		}
	}()
	return func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = c.SetReadDeadline(time.Time{})
	}
}

// whileWaiting returns a context that ends when the client hangs up while its request waits for
// room. The function that it returns ends the watch; the rest of the request may take readTimeout
// from then on, as the wait was not the client's.
func (c *conn) whileWaiting(ctx context.Context, readTimeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.watchHangUp(func() { cancel(errHungUp) })
	return ctx, func() {
		stop()
		cancel(nil)
		_ = c.SetReadDeadline(time.Now().Add(readTimeout))
	}
}

// awaitMore waits until there is something to read, and reports whether that is more
// than the end.
func (c *conn) awaitMore() (more bool, err error) {
	if c.secure != nil {
		err := c.secure.waitReadable()
		return c.secure.peeked.Load(), err
	}
	err = c.raw.Read(func(fd uintptr) bool {
		n, err := peekSocket(fd)
		more = n > 0
		return err == nil || !wouldBlock(err)
	})
	return more, err
}

// awaitEnd waits until the client has closed its side, whatever is to be read before that.
func (c *conn) awaitEnd() error {
	return c.raw.Read(func(fd uintptr) bool {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(polled, 0)
		return err == nil && polled[0].Revents != 0
	})
}

// answer is the http.ResponseWriter of one request. Its handler runs beside the
// goroutine of fasthttp, which sends what the handler hands over.
type answer struct {
	options *Options
	conn    *conn
	cancel  context.CancelCauseFunc
	release func()
	work    *processor.Work // of the handler
	head    bool            // a HEAD request: the body is counted, not sent

	header     http.Header // the handler's
	frozen     http.Header // as it was when the status was set
	status     int
	held       []byte // written, not yet handed over
	streaming  bool
	panicked   bool
	ready      chan struct{} // the answer is whole, or streaming has begun
	pieces     chan []byte   // of a stream, one at a time; closed at its end
	sent       chan error    // the answer to each piece
	closed     chan struct{} // fasthttp takes no more pieces
	returned   chan struct{} // the handler has returned
	bodyLength int64
}

func newAnswer(request *fasthttp.RequestCtx, o *Options, cancel context.CancelCauseFunc) *answer {
	return &answer{
		options: o, cancel: cancel, head: request.IsHead(), header: make(http.Header),
		ready: make(chan struct{}), pieces: make(chan []byte), sent: make(chan error),
		closed: make(chan struct{}), returned: make(chan struct{}),
	}
}

// run runs a handler to its end.
func (a *answer) run(serve func(), f *front, path string) {
	defer close(a.returned)
	func() {
		defer func() {
			if cause := recover(); cause != nil {
				a.panicked = true
				if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value
					f.options.Logger.Error("a handler panicked", "path", path, "panic", cause, "stack", string(debug.Stack()))
				}
			}
		}()
		serve()
	}()
	if a.streaming {
		if !a.panicked {
			_ = a.handOver()
		}
		close(a.pieces)
		return
	}
	close(a.ready)
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

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	a.bodyLength += int64(len(p))
	if a.head {
		return len(p), nil
	}
	total := len(p)
	for len(p) > 0 {
		room := a.options.Limits.OtherAnswerBytesHeld - len(a.held)
		if room == 0 {
			if err := a.handOver(); err != nil {
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
	if a.head || a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return nil
	}
	return a.handOver()
}

// handOver sends what is held, the header first.
func (a *answer) handOver() error {
	if !a.streaming {
		a.streaming = true
		a.sniff()
		close(a.ready)
	}
	if len(a.held) == 0 {
		return nil
	}
	if a.work.Idle() { // what writes without one may be waiting most of its time, as a trace does
		defer a.work.Pace()
	}
	select {
	case a.pieces <- a.held:
	case <-a.closed:
		return errHungUp
	}
	err := <-a.sent
	a.held = a.held[:0]
	return err
}

// sniff sets a Content-Type as net/http does.
func (a *answer) sniff() {
	if len(a.held) > 0 && a.frozen.Get(fasthttp.HeaderContentType) == "" && a.frozen.Get(fasthttp.HeaderContentEncoding) == "" {
		a.frozen.Set(fasthttp.HeaderContentType, http.DetectContentType(a.held))
	}
}

// respond gives the answer to fasthttp: whole, or as a stream.
func (a *answer) respond(request *fasthttp.RequestCtx) {
	if !a.streaming {
		<-a.returned
		defer a.release()
		if a.panicked {
			request.SetConnectionClose()
			respond(request, fasthttp.StatusInternalServerError, contentJSON,
				appendPutError(nil, fasthttp.StatusInternalServerError, "Internal Server Error", ""))
			return
		}
		a.WriteHeader(http.StatusOK)
		a.sniff()
		a.copyHeader(request)
		if a.head {
			request.Response.SkipBody = true
			if a.frozen.Get(fasthttp.HeaderContentLength) == "" && a.bodyLength > 0 {
				request.Response.Header.SetContentLength(int(a.bodyLength))
			}
			return
		}
		request.SetBody(a.held)
		return
	}
	a.copyHeader(request)
	if !request.Request.Header.IsHTTP11() {
		a.respondUntilClose(request)
		return
	}
	request.Response.ImmediateHeaderFlush = true
	request.Response.SetBodyStream(&answerStream{a}, -1)
}

func (a *answer) copyHeader(request *fasthttp.RequestCtx) {
	request.SetStatusCode(a.status)
	for name, values := range a.frozen {
		if name == fasthttp.HeaderContentLength && !a.head || name == fasthttp.HeaderTransferEncoding {
			continue
		}
		if name == fasthttp.HeaderConnection {
			if http.CanonicalHeaderKey(a.frozen.Get(name)) == "Close" {
				request.SetConnectionClose()
			}
			continue
		}
		for _, value := range values {
			request.Response.Header.Add(name, value)
		}
	}
}

// respondUntilClose streams to an HTTP/1.0 client, which knows no chunks: the
// end of the answer is the end of the connection.
func (a *answer) respondUntilClose(request *fasthttp.RequestCtx) {
	request.SetConnectionClose()
	request.Response.Header.SetContentLength(-2)
	head := append([]byte(nil), request.Response.Header.Header()...)
	taken := make(chan struct{})
	if a.conn != nil {
		a.conn.taken = taken
	}
	request.HijackSetNoResponse(true)
	request.Hijack(func(c net.Conn) {
		defer close(taken)
		s := &answerStream{a}
		if _, err := c.Write(head); err == nil {
			_, err = s.WriteTo(c)
			_ = err // the client has gone; Close tells the handler
		}
		_ = s.Close()
	})
}

// answerStream is the answer as fasthttp reads it.
type answerStream struct{ *answer }

// errAborted ends a stream so that the client sees that it is cut short.
var errAborted = errors.New("the handler gave up in the middle of its answer")

// SupportsBodyWriteTo says to fasthttp that WriteTo is to be used.
func (s *answerStream) SupportsBodyWriteTo() bool { return true }

// WriteTo sends each piece as the handler hands it over.
func (s *answerStream) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for piece := range s.pieces {
		if s.conn != nil {
			_ = s.conn.SetWriteDeadline(time.Now().Add(s.options.Limits.HTTPAnswerTimeout))
		}
		n, err := w.Write(piece)
		total += int64(n)
		s.sent <- err
		if err != nil {
			return total, err
		}
	}
	if s.panicked {
		return total, errAborted
	}
	return total, nil
}

// Read is never called, as WriteTo is there; io.Reader wants it.
func (s *answerStream) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// Close ends the stream and waits for the handler.
func (s *answerStream) Close() error {
	close(s.closed)
	select {
	case <-s.returned:
	default:
		s.cancel(errHungUp)
		<-s.returned
	}
	s.release()
	return nil
}
