package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// asked is the server of questions: net/http in front of Options.Other.
type asked struct {
	server *http.Server
	conns  chan *questionConn // for Accept
	closed chan struct{}
	front  *front
}

func newAsked(f *front) *asked {
	l := &f.options.Limits
	a := &asked{front: f, conns: make(chan *questionConn), closed: make(chan struct{})}
	a.server = &http.Server{
		Handler:     a,
		ReadTimeout: l.HTTPReadTimeout,
		IdleTimeout: l.HTTPIdleTimeout,
		// Longer headers are not handed on (readNext).
		MaxHeaderBytes:               l.HTTPHeaderBytesMax,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(f.options.Logger.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return f.base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c.(*questionConn).conn)
		},
		ConnState: func(c net.Conn, state http.ConnState) { c.(*questionConn).note(state) },
	}
	return a
}

type connKey struct{} // of the *conn in a context

// start accepts connections until close.
func (a *asked) start() { go func() { _ = a.server.Serve(a) }() }

// serve serves a connection until it ends or the next request is not a question.
func (a *asked) serve(c *conn) {
	q := &questionConn{conn: c, answerTimeout: a.front.options.Limits.HTTPAnswerTimeout, ended: make(chan struct{})}
	select {
	case a.conns <- q:
		<-q.ended
	case <-a.closed:
	}
}

// note follows what net/http does with the connection.
func (c *questionConn) note(state http.ConnState) {
	switch state {
	case http.StateActive:
		c.answering.Store(true)
		c.busy()
	case http.StateIdle:
		c.answering.Store(false)
		c.idle()
	case http.StateClosed:
		close(c.ended)
	}
}

// Accept implements net.Listener: connections come from the server of points.
func (a *asked) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener; nobody dials it.
func (a *asked) Addr() net.Addr { return &net.TCPAddr{} }

// Close implements net.Listener. It is called once.
func (a *asked) Close() error {
	close(a.closed)
	return nil
}

// ServeHTTP answers one question.
func (a *asked) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	f := a.front
	// Go leaves out parameters with a semicolon; writes take it as a character of their
	// database, and so do the readers of that database.
	r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, ";", "%3B")
	own, _ := r.Context().Value(connKey{}).(*conn)
	h := &questionHead{r, own}
	w := &answer{to: to, request: r, conn: own, front: f, bytesHeld: f.options.Limits.OtherAnswerBytesHeld, header: make(http.Header)}
	start := f.auditStart()
	c, err := f.admit(h)
	nameOrigin(to.Header(), h, c.sender)
	w.path = h.path()
	switch {
	case (err == nil || errors.Is(err, access.ErrUnauthenticated)) && answerPreflight(w, r, c.sender):
	case err == nil:
		f.ask(w, h, &c)
	default:
		f.turnAway(w, h, err)
	}
	w.finish()
	f.metrics.answered(w.status)
	f.audit(h, w.status, &c, err, start)
	if w.aborted {
		panic(http.ErrAbortHandler) // the client shall see that the answer is cut short
	}
}

// ask hands a question that was let in to who answers it.
func (f *front) ask(w *answer, h *questionHead, c *caller) {
	if probe := f.probes[string(h.path())]; probe != nil {
		probe(w, h.request)
		return
	}
	owner := c.owner(h)
	memory := questionMemory{Lease: f.budgets.Reads.Lease(owner), limits: &f.options.Limits, of: h.of}
	defer memory.Close()
	content, err := memory.readBody(h.request)
	if err == nil && !isOpen(h) { // whoever asks how the server is waits for nobody
		err = memory.take(h.request.Context(), f.options.Limits.answerBytes())
	}
	if err != nil {
		w.leaveBody()
		w.respond(refusal.Status(err), contentJSON, appendPutError(nil, refusal.Status(err), refusal.Message(err), ""))
		return
	}
	if f.options.Other == nil {
		w.respond(http.StatusNotFound, contentJSON,
			appendPutError(nil, http.StatusNotFound, "Endpoint not found", "The requested endpoint was not found"))
		return
	}
	ctx, work := f.options.Processors.Begin(f.context(h.request.Context(), c), owner.Name())
	defer work.EndAll()
	if len(h.request.RequestURI)+len(content) > textBytesLight {
		work.Heavy()
	}
	w.work = work
	audited := f.auditOther(h, c)
	r := h.request.WithContext(ctx)
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, int64(len(content)), nil
	if len(content) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(content))
	}
	w.runHandler(f.options.Other, r)
	w.finish()
	audited(w.status)
}

// textBytesLight is the text of a request, target and body, that any parser is through with in a
// millisecond or two. Longer ones are heavy work from the start: parsers cannot be paced.
const textBytesLight = 512

// questionMemory is the memory of one question.
type questionMemory struct {
	budget.Lease
	limits *Limits
	of     *conn
}

// take waits for room until the client hangs up. Errors: errBudget.
func (m *questionMemory) take(ctx context.Context, n int) error {
	if m.TryAcquire(int64(n)) {
		return nil
	}
	if err := m.Acquire(ctx, int64(n)); err != nil {
		return budgetError(err)
	}
	return nil
}

// readBody reads a body to its end. Errors: errBodyTooLarge, errBodyRead, errBudget.
func (m *questionMemory) readBody(r *http.Request) (content []byte, err error) {
	most := m.limits.OtherBodyBytesMax
	if r.ContentLength > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", refusal.ErrBodyTooLarge, r.ContentLength, most)
	}
	for r.ContentLength != 0 {
		if len(content) == cap(content) {
			grown := min(max(2*cap(content), bodyBytesFirst), most+1)
			if err := m.takeForBody(r, grown-cap(content)); err != nil {
				return nil, err
			}
			content = append(make([]byte, 0, grown), content...)
		}
		n, err := r.Body.Read(content[len(content):cap(content)])
		switch content = content[:len(content)+n]; {
		case len(content) > most:
			return nil, fmt.Errorf("%w: at most %d bytes", refusal.ErrBodyTooLarge, most)
		case errors.Is(err, io.EOF):
			return content, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", refusal.ErrBodyRead, err)
		}
	}
	return content, nil
}

// takeForBody is take in the middle of a body, where net/http does not look whether the client has
// hung up.
func (m *questionMemory) takeForBody(r *http.Request, n int) error {
	if m.TryAcquire(int64(n)) {
		return nil
	}
	ctx, stop := m.of.whileWaiting(r.Context(), m.limits.HTTPReadTimeout)
	defer stop()
	return m.take(ctx, n)
}
