package opentsdb

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// dialect is the language, as metrics and admission control name it.
const dialect = "opentsdb"

// handler serves the API. It is immutable but for its metrics.
type handler struct {
	shell     *shell.Shell
	deleter   scan.Deleter
	points    prometheus.Counter
	cut       prometheus.Counter
	limits    Limits
	version   Version
	config    map[string]string
	stats     func(context.Context) []Stat
	endpoints map[string]endpoint
	answers   *sync.Pool // of *answer
}

// endpoint is one path of the API.
type endpoint struct {
	methods []string
	reads   bool // it reads data: it is a query, for the rights and for admission control
	serve   func(*answer, *call) error
}

func newHandler(o Options) *handler {
	h := &handler{
		shell: shell.New(shell.Options{Dialect: dialect, ByEndpoint: true, Source: o.Source, WithConsistency: o.WithConsistency, Admission: o.Admission,
			Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer}),
		points:  shell.NewCounter(o.Registerer, dialect, "points_answered_total", "Points written into answers."),
		cut:     shell.NewCounter(o.Registerer, dialect, "answers_cut_total", "Answers that an error ended after they had begun."),
		answers: newAnswers(), deleter: o.Deleter, limits: o.Limits.withDefaults(), version: o.Version, config: o.Config, stats: o.Stats,
	}
	if h.version.Version == "" {
		h.version.Version = "2.4.0"
	}
	get := []string{http.MethodGet, http.MethodHead}
	both := append(slices.Clone(get), http.MethodPost)
	h.endpoints = map[string]endpoint{
		"query":          {append(slices.Clone(both), http.MethodDelete), true, h.query},
		"query/last":     {both, true, h.last},
		"suggest":        {both, true, h.suggest},
		"search/lookup":  {both, true, h.lookup},
		"aggregators":    {both, false, h.aggregators},
		"config":         {both, false, h.showConfig},
		"config/filters": {both, false, h.showFilters},
		"version":        {both, false, h.showVersion},
		"stats":          {both, false, h.showStats},
		"dropcaches":     {both, false, h.dropCaches},
		"serializers":    {both, false, h.showSerializers},
		"stats/query":    {both, false, h.showQueries},
	}
	return h
}

// withDefaults replaces 0 by the default and negative numbers by no bound.
func (l Limits) withDefaults() Limits {
	shell.Bound(&l.PointsMax, 1e8, 0)
	shell.Bound(&l.BodyBytesMax, 4<<20, 0)
	shell.Bound(&l.SubQueriesMax, 256, 0)
	shell.Bound(&l.NamesMax, 1e5, 0)
	if l.Parallel <= 0 {
		l.Parallel = runtime.GOMAXPROCS(0)
	}
	return l
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(strings.TrimPrefix(strings.ToLower(r.URL.Path), "/api"), "/")
	name := path
	if _, known := h.endpoints[path]; !known {
		name = "other"
	}
	ended, status := h.shell.Begin(), http.StatusInternalServerError // where it panics
	defer func() { ended(name, status) }()
	parameters := r.URL.Query()
	a, _ := h.answers.Get().(*answer)
	a.begin(w, parameters)
	defer func() { // also where it panics
		a.forget()
		h.answers.Put(a)
	}()
	err := h.serve(a, r, parameters, path)
	if err == nil {
		status = http.StatusOK
		return
	}
	begun := a.sent
	status = h.fail(a, r, err)
	if begun {
		h.cut.Inc()
		panic(http.ErrAbortHandler) // how net/http wants to be told to cut the connection
	}
}

// serve finds the endpoint and runs it.
func (h *handler) serve(a *answer, r *http.Request, parameters url.Values, path string) error {
	if r.Method == http.MethodOptions {
		return &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
			details: fmt.Sprintf("The HTTP method [%s] is not permitted", r.Method)}
	}
	e, ok := h.endpoints[path]
	if !ok {
		if err := refuse(path); err != nil {
			return err
		}
		return &apiError{status: http.StatusNotFound, message: "Endpoint not found", details: remedies[path]}
	}
	if m := method(r, parameters); !slices.Contains(e.methods, m) {
		a.w.Header().Set("Allow", strings.Join(e.methods, ", "))
		return &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
			details: fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", m)}
	}
	c, err := h.newCall(r, parameters, e.reads)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		if e.reads {
			if err := access.Check(c.Context(), c.database, access.Read); err != nil {
				return err
			}
		}
		return a.close()
	}
	if e.reads {
		return h.read(a, c, e)
	}
	if err := e.serve(a, c); err != nil {
		return err
	}
	return a.close()
}

// read runs an endpoint as a query of admission control.
func (h *handler) read(a *answer, c *call, e endpoint) error {
	if err := access.Check(c.Context(), c.database, access.Read); err != nil {
		return err
	}
	return h.shell.Run(c.Context(), admission.Query{Database: c.database, Text: c.text()}, func(ctx context.Context, entry *admission.Entry) error {
		c.Request, c.entry = c.WithContext(ctx), entry
		if err := e.serve(a, c); err != nil {
			return toAPIError(ctx, err)
		}
		return a.close()
	})
}

// method returns the method of a request, or the one that the parameter
// method_override puts in place of GET.
func method(r *http.Request, parameters url.Values) string {
	override := parameters.Get("method_override")
	if r.Method != http.MethodGet || override == "" {
		return r.Method
	}
	return strings.ToUpper(override)
}

// fail answers with an error, unless a part of the answer is out, and returns its status. In
// that case the connection is to be cut: a client must not take the part for the whole.
func (h *handler) fail(a *answer, r *http.Request, err error) int {
	api := toAPIError(r.Context(), err)
	if a.err != nil {
		api = &apiError{status: shell.StatusClientGone, message: a.err.Error()}
	}
	h.shell.Failed(r, api.status, slog.String("error", api.message), slog.String("details", api.details), slog.Bool("answer_begun", a.sent))
	if a.sent || api.status == shell.StatusClientGone {
		return api.status
	}
	text := a.buf[:0]
	text = append(text, `{"error":{`...)
	text = appendFloat(appendField(text, "code"), float64(api.status), false)
	text = jsontext.AppendHTML(appendField(text, "message"), api.message)
	if api.details != "" {
		text = jsontext.AppendHTML(appendField(text, "details"), api.details)
	}
	a.buf = append(text, '}', '}')
	if api.status == http.StatusServiceUnavailable {
		shell.RetryLater(a.w.Header())
	}
	a.sent = true // the header that follows is the last
	a.w.WriteHeader(api.status)
	if err := a.close(); err != nil {
		return shell.StatusClientGone
	}
	return api.status
}
