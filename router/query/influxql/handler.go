package influxql

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	ql "github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// Headers of every answer, with which clients tell what they speak to.
const (
	headerVersion = "X-Influxdb-Version"
	headerBuild   = "X-Influxdb-Build"
	headerError   = "X-Influxdb-Error"
	version       = "1.8.10" // of the API that is served
)

// dialect is the language, as metrics and admission control name it.
const dialect = "influxql"

// handler serves /query. It is immutable but for its metrics.
type handler struct {
	shell     *shell.Shell
	deleter   scan.Deleter
	writer    Writer          // nil: SELECT INTO is refused
	queries   *continuous.Set // nil: there can be none
	databases Databases
	retention func(database string) (kept time.Duration, known bool)
	metrics   func(access.Principal) prometheus.Gatherer
	build     Build
	started   time.Time
	rows      prometheus.Counter
	limits    Limits
	texts     sync.Pool // of *bufio.Reader, of which parsers read
}

func newHandler(o Options) *handler {
	h := &handler{
		shell: shell.New(shell.Options{Dialect: dialect, Source: o.Source, WithConsistency: o.WithConsistency, Admission: o.Admission,
			Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer}),
		rows:    shell.NewCounter(o.Registerer, dialect, "rows_answered_total", "Rows written into answers."),
		deleter: o.Deleter, writer: o.Writer, queries: o.Continuous, databases: o.Databases, retention: o.Retention, metrics: o.Metrics, build: o.Build, limits: o.Limits.withDefaults(),
		texts: sync.Pool{New: func() any { return bufio.NewReader(nil) }},
	}
	h.started = h.shell.Clock().UTC()
	if h.databases == nil {
		h.databases = knownDatabases{h.shell.Source, o.Deleter}
	}
	return h
}

// withDefaults replaces 0 by the default and negative numbers by no bound.
func (l Limits) withDefaults() Limits {
	const none = 1 << 62
	shell.Bound(&l.RowsMax, 10e6, none)
	shell.Bound(&l.WindowsMax, 1e6, none)
	shell.Bound(&l.StatementsMax, 100, none)
	shell.Bound(&l.DepthMax, 16, none)
	shell.Bound(&l.BodyBytesMax, 4<<20, none)
	if l.Parallel <= 0 {
		l.Parallel = runtime.GOMAXPROCS(0)
	}
	return l
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(headerVersion, version)
	w.Header().Set(headerBuild, "OSS")
	if r.Method == http.MethodOptions { // preflights are answered before
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ended, status := h.shell.Begin(), http.StatusInternalServerError // where it panics
	defer func() { ended("", status) }()
	if err := h.serve(w, r); err != nil {
		status = h.fail(w, r, err)
		return
	}
	status = http.StatusOK
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
	begun := false
	err = h.shell.Run(r.Context(), admission.Query{Database: database, Others: others, Text: ql.Sanitize(q.text)}, func(ctx context.Context, entry *admission.Entry) error {
		begun = true
		if q.explain {
			return h.explainAll(ctx, entry, w, q)
		}
		return h.run(ctx, entry, w, q)
	})
	if begun { // errors of statements are in the answer
		return nil
	}
	return err
}

// run executes the statements one after the other, as far as the first that fails, whose
// error it returns.
func (h *handler) run(ctx context.Context, entry *admission.Entry, w http.ResponseWriter, q *request) error {
	reader := h.shell.Reader(q.consistency)
	out := answer.New(&missingTeller{ResponseWriter: w, reader: reader}, q.form)
	x := h.newExecution(ctx, entry, reader, q)
	if q.form.ChunkRows > 0 {
		x.rowsLeft = 1 << 62
	}
	out.Begin()
	var failed error
	for i, statement := range q.statements {
		out.BeginStatement(i)
		end := &answer.Ending{Err: errNotExecuted}
		if failed == nil {
			*end = x.execute(statement, out)
			if end.Err != nil {
				end.Err = explain(ctx, end.Err)
				failed = end.Err
				h.shell.Log.DebugContext(ctx, "statement failed", "error", end.Err)
			}
		}
		out.EndStatement(end)
	}
	out.End()
	h.rows.Add(float64(x.rows))
	return failed
}

func (h *handler) newExecution(ctx context.Context, entry *admission.Entry, reader *shell.Reader, q *request) *execution {
	return &execution{
		handler: h, Reader: load.Reader{Ctx: ctx, Source: reader.Source, Entry: entry, Parallel: h.limits.Parallel},
		database: q.database, now: h.shell.Clock().UTC(), rowsLeft: h.limits.RowsMax,
	}
}

var errNotExecuted = errors.New("not executed")

// fail answers with the error of a request and returns its status.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) int {
	e := toRequestError(r.Context(), err)
	if e.retryAfter {
		shell.RetryLater(w.Header())
	}
	message := strings.Join(strings.Fields(e.message), " ")
	w.Header().Set(headerError, message[:min(len(message), 1024)])
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(append(jsontext.AppendHTML([]byte(`{"error":`), e.message), "}\n"...))
	return e.status
}
