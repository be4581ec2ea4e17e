package opentsdb

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// handler serves the API. It is immutable but for its metrics.
type handler struct {
	source    scan.Source
	relaxed   func(scan.Relaxation) (scan.Source, func() []uint16)
	deleter   scan.Deleter
	clock     func() time.Time
	log       *slog.Logger
	metrics   *metrics
	limits    Limits
	version   Version
	config    map[string]string
	stats     func(context.Context) []Stat
	endpoints map[string]endpoint
	ledger    *ledger.Ledger
}

// endpoint is one path of the API.
type endpoint struct {
	methods []string
	reads   bool // it reads data: it is a query, for the rights and for the ledger
	serve   func(*answer, *call) error
}

func newHandler(o Options) *handler {
	h := &handler{
		source: o.Source, relaxed: o.Relaxed, deleter: o.Deleter, clock: o.Clock, log: o.Logger, metrics: newMetrics(o.Registerer), limits: o.Limits.withDefaults(),
		version: o.Version, config: o.Config, stats: o.Stats, ledger: o.Ledger,
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
		"aggregators":    {get, false, h.aggregators},
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
	for _, field := range []struct {
		value        *int64
		defaultValue int64
	}{
		{&l.PointsMax, 1e8}, {&l.BodyBytesMax, 4 << 20}, {&l.SubQueriesMax, 256}, {&l.NamesMax, 1e5},
	} {
		switch {
		case *field.value == 0:
			*field.value = field.defaultValue
		case *field.value < 0:
			*field.value = 0
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
	path := strings.Trim(strings.TrimPrefix(strings.ToLower(r.URL.Path), "/api"), "/")
	name := path
	if _, known := h.endpoints[path]; !known {
		name = "other"
	}
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()
	a := newAnswer(w, r)
	status := http.StatusOK
	if err := h.serve(a, r, path); err != nil {
		status = h.fail(a, r, err)
	}
	h.metrics.observe(name, status, time.Since(started))
}

// serve finds the endpoint and runs it.
func (h *handler) serve(a *answer, r *http.Request, path string) error {
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
	if m := method(r); !slices.Contains(e.methods, m) {
		a.w.Header().Set("Allow", strings.Join(e.methods, ", "))
		return &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
			details: fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", m)}
	}
	c, err := h.newCall(r, e.reads)
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

// read runs an endpoint as a query of the ledger.
func (h *handler) read(a *answer, c *call, e endpoint) (err error) {
	if err := access.Check(c.Context(), c.database, access.Read); err != nil {
		return err
	}
	ctx, entry, err := h.ledger.Begin(c.Context(), ledger.Query{
		Dialect: "opentsdb", Database: c.database, Text: c.text(), User: access.Of(c.Context()).Name(),
	})
	if err != nil {
		return err
	}
	defer func() { entry.End(err) }()
	c.Request, c.entry = c.WithContext(ctx), entry
	if err := e.serve(a, c); err != nil {
		return toAPIError(ctx, err)
	}
	return a.close()
}

// method gives the method of a request, or the one that the parameter
// method_override puts in place of GET.
func method(r *http.Request) string {
	override := r.URL.Query().Get("method_override")
	if r.Method != http.MethodGet || override == "" {
		return r.Method
	}
	return strings.ToUpper(override)
}

// fail answers with an error and gives its status. When a part of the answer is
// out already, the connection is cut, or, behind a server of another kind, the
// JSON ends where it is: a client must not take it for the whole.
func (h *handler) fail(a *answer, r *http.Request, err error) int {
	api := toAPIError(r.Context(), err)
	if a.err != nil {
		api = &apiError{status: statusClientGone, message: a.err.Error()}
	}
	level := slog.LevelDebug // what clients bring about is counted, and would fill a log
	if api.status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	h.log.LogAttrs(r.Context(), level, "query failed", slog.String("path", r.URL.Path), slog.Int("status", api.status),
		slog.String("error", api.message), slog.String("details", api.details), slog.Bool("answer_begun", a.sent))
	if a.sent {
		if r.Context().Value(http.ServerContextKey) != nil {
			h.metrics.cut.Inc()
			panic(http.ErrAbortHandler) // how net/http wants to be told to cut the connection
		}
		return api.status
	}
	if api.status == statusClientGone {
		return api.status
	}
	text := a.buf[:0]
	text = append(text, `{"error":{`...)
	text = appendFloat(appendField(text, "code"), float64(api.status), false)
	text = appendString(appendField(text, "message"), api.message)
	if api.details != "" {
		text = appendString(appendField(text, "details"), api.details)
	}
	a.buf = append(text, '}', '}')
	if api.status == http.StatusServiceUnavailable {
		a.w.Header().Set("Retry-After", "1")
	}
	a.sent = true // the header that follows is the last
	a.w.WriteHeader(api.status)
	if err := a.close(); err != nil {
		return statusClientGone
	}
	return api.status
}
