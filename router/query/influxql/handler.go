package influxql

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// Headers of every answer, with which clients tell what they speak to.
const (
	headerVersion = "X-Influxdb-Version"
	headerBuild   = "X-Influxdb-Build"
	headerError   = "X-Influxdb-Error"
	version       = "1.8.10" // of the API that is served
)

// handler serves /query. It is immutable but for its metrics.
type handler struct {
	source    scan.Source
	relaxed   func(scan.Relaxation) (scan.Source, func() []uint16)
	deleter   scan.Deleter
	databases Databases
	retention func(database string) time.Duration
	ledger    *ledger.Ledger
	clock     func() time.Time
	log       *slog.Logger
	metrics   *metrics
	limits    Limits
}

func newHandler(o Options) *handler {
	h := &handler{
		relaxed: o.Relaxed, deleter: o.Deleter, databases: o.Databases, retention: o.Retention, ledger: o.Ledger, clock: o.Clock, log: o.Logger,
		metrics: newMetrics(o.Registerer), limits: o.Limits.withDefaults(),
	}
	if h.ledger == nil {
		h.ledger = ledger.New(ledger.Options{})
	}
	if h.clock == nil {
		h.clock = time.Now
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.source = o.Source
	if h.databases == nil {
		h.databases = knownDatabases{o.Source, o.Deleter}
	}
	return h
}

// withDefaults replaces 0 by the default and negative numbers by no bound.
func (l Limits) withDefaults() Limits {
	for _, field := range []struct {
		value        *int64
		defaultValue int64
	}{
		{&l.RowsMax, 10e6}, {&l.WindowsMax, 1e6}, {&l.StatementsMax, 100}, {&l.DepthMax, 16}, {&l.BodyBytesMax, 4 << 20},
	} {
		switch {
		case *field.value == 0:
			*field.value = field.defaultValue
		case *field.value < 0:
			*field.value = 1 << 62
		}
	}
	if l.Parallel <= 0 {
		l.Parallel = runtime.GOMAXPROCS(0)
	}
	return l
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	w.Header().Set(headerVersion, version)
	w.Header().Set(headerBuild, "OSS")
	if r.Method == http.MethodOptions { // preflights are answered before
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()
	status := http.StatusOK
	if err := h.serve(w, r); err != nil {
		status = h.fail(w, r, err)
	}
	h.metrics.observe(status, time.Since(started))
}

// serve answers a request. An error is of the request as a whole: nothing of its answer
// is out.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodPost:
	case http.MethodHead:
		return nil
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return &requestError{status: http.StatusMethodNotAllowed, message: "method not allowed"}
	}
	q, err := h.readRequest(w, r)
	if err != nil {
		return err
	}
	database, others, err := booked(r.Context(), q)
	if err != nil {
		return err
	}
	ctx, entry, err := h.ledger.Begin(r.Context(), ledger.Query{
		Dialect: "influxql", Database: database, Others: others, Text: ql.Sanitize(q.text), User: access.Of(r.Context()).Name(),
	})
	if err != nil {
		return err
	}
	var failed error
	defer func() { entry.End(failed) }() // also when it panics, or its place would be taken for ever
	failed = h.run(ctx, entry, w, q)
	return nil
}

// run executes the statements one after the other, as far as the first that fails, whose
// error it gives.
func (h *handler) run(ctx context.Context, entry *ledger.Entry, w http.ResponseWriter, q *request) error {
	source, missing := h.source, func() []uint16 { return nil }
	if h.relaxed != nil && q.relaxation != (scan.Relaxation{}) {
		source, missing = h.relaxed(q.relaxation)
	}
	out := q.newFormat(&missingTeller{ResponseWriter: w, missing: missing, count: h.metrics.partial.Inc})
	x := &execution{
		handler: h, ctx: ctx, entry: entry, source: source, database: q.database, now: h.clock().UTC(),
		rowsLeft: h.limits.RowsMax,
	}
	if q.chunked {
		x.rowsLeft = 1 << 62
	}
	out.begin()
	var failed error
	for i, statement := range q.statements {
		out.beginStatement(i)
		end := &ending{err: errNotExecuted}
		if failed == nil {
			*end = x.execute(statement, out)
			if end.err != nil {
				end.err = explain(ctx, end.err)
				failed = end.err
				h.log.DebugContext(ctx, "statement failed", "error", end.err)
			}
		}
		out.endStatement(end)
	}
	out.end()
	h.metrics.rows.Add(float64(x.rows))
	return failed
}

var errNotExecuted = errors.New("not executed")

// fail answers with the error of a request and gives its status.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) int {
	e := toRequestError(r.Context(), err)
	if e.retryAfter {
		w.Header().Set("Retry-After", "1")
	}
	message := strings.Join(strings.Fields(e.message), " ")
	w.Header().Set(headerError, message[:min(len(message), 1024)])
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(append(appendString([]byte(`{"error":`), e.message), "}\n"...))
	return e.status
}
