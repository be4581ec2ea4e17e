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
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/http1"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// front serves HTTP: writes, and questions by Options.Other.
type front struct {
	server   *fasthttp.Server // of points
	asked    *asked           // the server of questions
	base     context.Context
	options  *Options
	workers  *workers
	metrics  *metrics
	budgets  Budgets
	bodies   sync.Pool // of *body
	helds    sync.Pool // of *[]byte, for what is held of answers
	draining atomic.Bool
	dialects map[string]*dialect                     // of writes, by path
	probes   map[string]func(*answer, *http.Request) // of clients that ask whether somebody is there, by path

	replicaTaken parse.ExtraLabels // without Options.ReplicaLabel
	// elsewhere names the ports that take what is not HTTP; set before serving.
	elsewhere string
}

// dialect is one way to write over HTTP.
type dialect struct {
	protocol protocol
	put      bool   // PUT is a way to say POST
	bucket   bool   // the parameter bucket names the database
	encoding string // of bodies that do not name one
	// lines reports whether a body that begins so is lines, which may be cut; nil: it never is.
	lines func(start []byte) bool
	parse func(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error
	// answer answers; err concerns the whole request: its body, the parser, or
	// the Writer, in which case nothing was written.
	answer func(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error)
}

func newFront(base context.Context, o *Options, ws *workers, m *metrics, budgets Budgets) *front {
	f := &front{base: base, options: o, workers: ws, metrics: m, budgets: budgets, replicaTaken: parse.ExtraLabels{}.Without(o.ReplicaLabel)}
	f.bodies.New = func() any { return &body{base: base, limits: &o.Limits, processors: o.Processors} }
	lines := func([]byte) bool { return true }
	put := &dialect{protocol: protocolPutHTTP, put: true, parse: f.parsePut, answer: f.answerPut, lines: func(start []byte) bool {
		isJSON, empty := looksLikeJSON(start)
		return !isJSON && !empty
	}}
	f.dialects = map[string]*dialect{
		"/api/put":           put,
		"/api/put/":          put,
		"/api/v1/put":        put, // OpenTSDB takes its API's version in the path
		pathWrite:            {protocol: protocolInflux1, lines: lines, parse: f.parseInflux1, answer: f.answerInflux1},
		"/api/v2/write":      {protocol: protocolInflux2, bucket: true, lines: lines, parse: f.parseInflux2, answer: f.answerInflux2},
		"/api/write":         {protocol: protocolTickTock, lines: lines, parse: f.parseTickTock, answer: f.answerTickTock},
		"/api/v1/write":      {protocol: protocolRemoteWrite, encoding: "snappy", parse: f.parseRemoteWrite, answer: f.answerRemoteWrite},
		pathImport:           {protocol: protocolImport, lines: lines, parse: f.parseImport, answer: f.answerImport},
		pathImportCSV:        {protocol: protocolImportCSV, lines: lines, parse: f.parseImportCSV, answer: f.answerImport},
		pathImportPrometheus: {protocol: protocolImportPrometheus, lines: lines, parse: f.parseImportPrometheus, answer: f.answerImport},
	}
	otlp := &dialect{protocol: protocolOTLP, parse: f.parseOTLP, answer: f.answerOTLP}
	f.dialects["/v1/metrics"] = otlp
	f.dialects["/api/v1/otlp/v1/metrics"] = otlp // where Prometheus has it
	f.probes = map[string]func(*answer, *http.Request){pathPing: ping, pathHealth: health}
	f.asked = newAsked(f)
	f.server = &fasthttp.Server{
		Handler:                      f.serve,
		ErrorHandler:                 f.refuse,
		ExpectHandler:                f.expect,
		ConnState:                    connState,
		Logger:                       fastLogger{o.Logger},
		Concurrency:                  4 * o.Limits.ConnectionsMax, // the listeners bound it
		ReadBufferSize:               o.Limits.HTTPHeaderBytesMax,
		ReadTimeout:                  o.Limits.HTTPReadTimeout,
		WriteTimeout:                 o.Limits.HTTPAnswerTimeout,
		IdleTimeout:                  o.Limits.HTTPIdleTimeout,
		MaxRequestBodySize:           o.Limits.BodyBytesMax,
		StreamRequestBody:            true, // bodies are read into the worker's buffers
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
	}
	return f
}

// fastLogger passes on what fasthttp has to say, all of it about single
// connections.
type fastLogger struct{ log *slog.Logger }

// Printf implements fasthttp.Logger.
func (l fastLogger) Printf(format string, args ...any) {
	l.log.Debug("http", "message", fmt.Sprintf(format, args...))
}

func connState(c net.Conn, state fasthttp.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		own.busy()
	case fasthttp.StateIdle:
		own.idle()
	}
}

// Paths that more than one place knows.
const (
	pathWrite  = "/write"
	pathQuery  = "/query"
	pathPing   = "/ping"
	pathHealth = "/health"
)

// serve answers one request.
func (f *front) serve(request *fasthttp.RequestCtx) {
	start := f.auditStart()
	c, err := f.admit(headOf(request))
	nameOrigin(&request.Response.Header, headOf(request), c.sender)
	f.route(request, &c, err)
	if f.draining.Load() || wantsClose(request) {
		request.SetConnectionClose()
	}
	status := request.Response.StatusCode()
	if status == fasthttp.StatusUnauthorized {
		f.challenge(&request.Response.Header, request.Path())
	}
	f.metrics.answered(status)
	f.audit(headOf(request), status, &c, err, start)
}

// wantsClose reports whether a client has asked for the end of its connection among other
// things, or in capitals; fasthttp knows the lone word.
func wantsClose(request *fasthttp.RequestCtx) bool {
	options := fieldOf(request, fasthttp.HeaderConnection)
	for len(options) >= len("close") {
		var option []byte
		option, options, _ = bytes.Cut(options, []byte(","))
		if bytes.EqualFold(bytes.Trim(option, " \t"), []byte("close")) {
			return true
		}
	}
	return false
}

// route answers a request of the server of points; err is that of admit.
func (f *front) route(request *fasthttp.RequestCtx, c *caller, err error) {
	d := f.dialects[string(request.Path())]
	if err != nil {
		f.metrics.failures.noteEarly(err)
	}
	switch {
	case d == nil && err != nil: // its path was not taken apart
		leaveBody(request)
		respond(request, refusal.Status(err), contentText, append([]byte(refusal.Message(err)), '\n'))
	case d == nil: // a target that net/http would refuse without a word
		_, reason := url.ParseRequestURI(string(request.RequestURI()))
		leaveBody(request)
		respond(request, fasthttp.StatusBadRequest, contentJSON,
			appendPutError(nil, fasthttp.StatusBadRequest, "Bad request", fmt.Sprint(reason)))
	case err != nil:
		leaveBody(request)
		d.answer(request, nil, result{}, err)
	default:
		f.write(request, d, c)
	}
}

// write takes one write request of any dialect. What is parsed is read before a worker
// is taken, so that slow clients hold none.
func (f *front) write(request *fasthttp.RequestCtx, d *dialect, c *caller) {
	if !request.IsPost() && !(d.put && request.IsPut()) {
		request.Response.Header.Set(fasthttp.HeaderAllow, "POST")
		leaveBody(request)
		d.answer(request, nil, result{}, refusal.ErrMethod)
		return
	}
	database, err := f.databaseOf(request, d, c)
	var account *tenant.Account
	if err == nil {
		account, err = f.account(c, database)
	}
	if err != nil {
		c.refusal = err
		leaveBody(request)
		f.turnAwayWrite(request, d, err)
		return
	}
	f.options.Processors.Small()
	b := f.takeBody(request, c)
	defer f.restBody(b)
	content, more, err := b.begin(f.base, request, d.manner(request))
	to := target{database, account}
	switch {
	case err != nil:
	case more && d.lines(content):
		f.writeChunks(request, d, c, to, b, content)
		return
	case more:
		content, err = b.whole(f.base)
	}
	if err != nil {
		if !b.sent.ended {
			leaveBody(request)
		}
		f.turnAwayWrite(request, d, err)
		return
	}
	start := time.Now()
	pm := &f.metrics.protocols[d.protocol]
	pm.bytes.Add(int64(b.sent.bytes))
	fl, err := f.takeWrite(b)
	if err != nil {
		f.turnAwayWrite(request, d, err)
		return
	}
	defer f.workers.rest(fl)
	var r result
	if fl.options, err = writeOptionsOf(request, c, content); err == nil {
		r, err = f.placeRequest(request, d, fl, to, content)
	}
	account.Wrote(r.accepted, r.refused, r.failed, b.sent.bytes)
	d.answer(request, fl, r, err)
	if err != nil {
		setRetryAfter(request, err)
	}
	pm.seconds.Observe(time.Since(start).Seconds())
}

// manner returns how the body of a request is read: an Idempotency-Key belongs to all of a body.
func (d *dialect) manner(request *fasthttp.RequestCtx) manner {
	return manner{encoding: d.encoding, chunks: d.lines != nil && fieldOf(request, headerIdempotencyKey) == nil}
}

// turnAwayWrite answers a write of which nothing was parsed.
func (f *front) turnAwayWrite(request *fasthttp.RequestCtx, d *dialect, err error) {
	f.metrics.failures.noteEarly(err)
	d.answer(request, nil, result{}, err)
}

// takeWrite takes an in-flight write for what was read of a body.
func (f *front) takeWrite(b *body) (*inFlightWrite, error) {
	b.work.Idle() // those that have workers may wait for its slot
	fl, err := f.workers.take(f.base, b.work != nil)
	if err != nil {
		return nil, err
	}
	fl.memory, fl.work = b, b.work
	b.work.Pace()
	return fl, nil
}

// target is where a write goes.
type target struct {
	database []byte
	account  *tenant.Account
}

// placeRequest parses the body of a request and writes it.
func (f *front) placeRequest(request *fasthttp.RequestCtx, d *dialect, fl *inFlightWrite, to target, content []byte) (result, error) {
	timeout := f.options.Limits.WriteTimeout
	if d.put {
		timeout = putTimeout(request, timeout)
	}
	return f.place(d.protocol, fl, to, timeout, func() error { return d.parse(request, fl, content) })
}

// place parses an input, perhaps twice, and writes it.
func (f *front) place(p protocol, fl *inFlightWrite, to target, timeout time.Duration, parse func() error) (result, error) {
	pm := &f.metrics.protocols[p]
	var deadline time.Time
	for taken := false; ; {
		fl.worker.batch.Memory, fl.worker.batch.Extra, fl.worker.batch.KeepExemplars = fl.memory, fl.options.extra, f.options.Exemplars != nil
		if err := parse(); err != nil {
			f.metrics.failures.noteEarly(err)
			return result{}, err
		}
		if !taken {
			if late, err := fl.take(to.account); err != nil {
				pm.count(late)
				f.metrics.failures.note(err)
				return late, err
			}
			taken = true
			deadline = time.Now().Add(timeout)
			f.keepMetadata(to.database, &fl.worker.batch)
		}
		exemplars, refused := f.exemplarsOf(to.database, &fl.worker.batch) // the write gives the batch back
		r, err := fl.write(to.database, timeout)
		if errors.Is(err, errParseAgain) {
			continue
		}
		pm.count(r)
		f.metrics.exemplars[exemplarRefused].Add(int64(refused))
		if err == nil && len(exemplars) > 0 {
			fl.work.Idle()
			r.exemplars = f.writeExemplars(exemplars, to.account, deadline)
		}
		if err != nil {
			f.metrics.exemplars[exemplarFailed].Add(int64(len(exemplars)))
			to.account.Give(r.failed)
			f.metrics.failures.note(err)
		} else if r.refusal != nil {
			f.metrics.failures.note(r.refusal)
		}
		return r, err
	}
}

func (f *front) takeBody(request *fasthttp.RequestCtx, c *caller) *body {
	b := f.bodies.Get().(*body)
	b.owner = c.owner(headOf(request))
	b.lease = f.budgets.Writes.Lease(b.owner)
	return b
}

func (f *front) restBody(b *body) {
	b.release()
	f.bodies.Put(b)
}

// expect answers a client that asks before it sends its body: one that is too large,
// or whose client is not let in, need not come.
func (f *front) expect(request *fasthttp.RequestCtx) (status int) {
	// The request comes again, to serve: its path has to be what it was.
	original := append([]byte(nil), request.URI().PathOriginal()...)
	defer request.URI().SetPathBytes(original)
	start := f.auditStart()
	if c, err := f.admit(headOf(request)); err != nil {
		f.route(request, &c, err)
		if status = request.Response.StatusCode(); status == fasthttp.StatusUnauthorized {
			f.challenge(&request.Response.Header, request.Path())
		}
		f.metrics.answered(status)
		f.audit(headOf(request), status, &c, err, start)
		return status
	}
	d := f.dialects[string(request.Path())]
	if d == nil {
		return fasthttp.StatusContinue // route answers
	}
	limit := f.options.Limits.sent(d.manner(request))
	if request.Request.Header.ContentLength() <= limit.bytesMax {
		return fasthttp.StatusContinue
	}
	err := tooLarge(limit.bytesMax, limit.set)
	respond(request, refusal.Status(err), contentJSON, appendPutError(nil, refusal.Status(err), err.Error(), ""))
	f.metrics.answered(refusal.Status(err))
	return refusal.Status(err)
}

// refuse answers a request that is not HTTP as it should be.
func (f *front) refuse(request *fasthttp.RequestCtx, err error) {
	lingerAfter(request)
	status, message, details := fasthttp.StatusBadRequest, "Bad request", "This is no HTTP request: "+err.Error()+f.elsewhere
	var refused *http1.Error
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &refused):
		status, message, details = refused.Status, fasthttp.StatusMessage(refused.Status), "This is no HTTP request: "+refused.Reason+f.elsewhere
	case errors.Is(err, io.ErrUnexpectedEOF):
		details = "The connection ended in the middle of the request"
	case errors.As(err, &small):
		status, message, details = fasthttp.StatusRequestHeaderFieldsTooLarge, "Request headers too large",
			fmt.Sprintf("At most %d bytes", f.options.Limits.HTTPHeaderBytesMax)
	case errors.As(err, &network) && network.Timeout():
		// Not 408: the timeout may have come in the middle of a batch, which
		// clients throw away on any 4xx.
		status, message, details = fasthttp.StatusServiceUnavailable, "Request timeout",
			fmt.Sprintf("The request did not arrive within %v", f.options.Limits.HTTPReadTimeout)
		f.metrics.failures.note(refusal.ErrSlowHeader)
	}
	respond(request, status, contentJSON, appendPutError(nil, status, message, details))
	f.metrics.answered(status)
}
