package opentsdb

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// handler serves the API. It is immutable but for its metrics.
type handler struct {
	source         scan.Source
	relaxed        func(scan.Relaxation) (scan.Source, func() []uint16)
	deleter        scan.Deleter
	clock          func() time.Time
	log            *slog.Logger
	metrics        *metrics
	limits         Limits
	version        Version
	config         map[string]string
	stats          func() []Stat
	notANumber     NotANumber
	corsOrigins    []string
	databaseHeader string
	endpoints      map[string]endpoint
	running        chan struct{} // one place for each query at once; nil: no bound
	memory         sharedBudget
}

// endpoint is one path of the API.
type endpoint struct {
	methods []string
	serve   func(*answer, *http.Request) error
}

func newHandler(o Options) *handler {
	h := &handler{
		source: o.Source, relaxed: o.Relaxed, deleter: o.Deleter, clock: o.Clock, log: o.Logger, metrics: newMetrics(o.Registerer), limits: o.Limits.withDefaults(),
		version: o.Version, config: o.Config, stats: o.Stats, notANumber: o.NotANumber, corsOrigins: o.CORSOrigins, databaseHeader: o.DatabaseHeader,
	}
	h.memory.limit = h.limits.BytesAllMax
	if h.limits.QueriesMax > 0 {
		h.running = make(chan struct{}, h.limits.QueriesMax)
	}
	if h.clock == nil {
		h.clock = time.Now
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.databaseHeader == "" {
		h.databaseHeader = "X-Scope-OrgID"
	}
	if h.version.Version == "" {
		h.version.Version = "2.4.0"
	}
	get := []string{http.MethodGet, http.MethodHead}
	both := append(slices.Clone(get), http.MethodPost)
	h.endpoints = map[string]endpoint{
		"query":          {append(slices.Clone(both), http.MethodDelete), h.bounded(h.query)},
		"query/last":     {both, h.bounded(h.last)},
		"suggest":        {both, h.suggest},
		"search/lookup":  {both, h.lookup},
		"aggregators":    {get, h.aggregators},
		"config":         {both, h.showConfig},
		"config/filters": {both, h.showFilters},
		"version":        {both, h.showVersion},
		"stats":          {both, h.showStats},
		"dropcaches":     {both, h.dropCaches},
	}
	for _, path := range []string{"query/exp", "query/gexp", "annotation", "annotations", "annotation/bulk", "histogram", "rollup", "tree",
		"search/tsmeta", "search/tsmeta_summary", "search/tsuids", "search/uidmeta", "search/annotation", "search",
		"uid/assign", "uid/rename", "uid/tsmeta", "uid/uidmeta", "stats/query", "stats/jvm", "stats/threads", "stats/region_clients", "serializers"} {
		h.endpoints[path] = endpoint{append(slices.Clone(both), http.MethodPut, http.MethodDelete), notImplemented}
	}
	return h
}

// withDefaults replaces 0 by the default and negative numbers by no bound.
func (l Limits) withDefaults() Limits {
	for _, field := range []struct {
		value        *int64
		defaultValue int64
	}{
		{&l.SeriesMax, 1e6}, {&l.SamplesMax, 1e9}, {&l.BytesMax, 512 << 20}, {&l.PointsMax, 1e8},
		{&l.BodyBytesMax, 4 << 20}, {&l.SubQueriesMax, 256}, {&l.NamesMax, 1e5}, {&l.QueriesMax, 64},
	} {
		switch {
		case *field.value == 0:
			*field.value = field.defaultValue
		case *field.value < 0:
			*field.value = 0
		}
	}
	if l.BytesAllMax == 0 {
		l.BytesAllMax = 2 * l.BytesMax
	}
	l.BytesAllMax = max(0, l.BytesAllMax)
	if l.Timeout == 0 {
		l.Timeout = 2 * time.Minute
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
	ctx := r.Context()
	if h.limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.limits.Timeout)
		defer cancel()
	}
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()
	r = r.WithContext(ctx)
	a := newAnswer(w, r)
	status := http.StatusOK
	err := h.serve(a, r, path)
	if err == nil {
		err = a.close()
	}
	if err != nil {
		status = h.fail(a, r, err)
	}
	h.metrics.observe(name, status, time.Since(started))
}

// serve finds the endpoint and runs it.
func (h *handler) serve(a *answer, r *http.Request, path string) error {
	if answered, err := h.cors(a.w, r); answered || err != nil {
		return err
	}
	e, ok := h.endpoints[path]
	if !ok {
		return &apiError{status: http.StatusNotFound, message: "Endpoint not found"}
	}
	if m := method(r); !slices.Contains(e.methods, m) {
		a.w.Header().Set("Allow", strings.Join(e.methods, ", "))
		return &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
			details: fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", m)}
	}
	if r.Method == http.MethodHead {
		return nil
	}
	return e.serve(a, r)
}

// bounded refuses requests beyond the number that may run at once, so that their
// budgets of memory have a bound together.
func (h *handler) bounded(serve func(*answer, *http.Request) error) func(*answer, *http.Request) error {
	if h.running == nil {
		return serve
	}
	return func(a *answer, r *http.Request) error {
		select {
		case h.running <- struct{}{}:
			defer func() { <-h.running }()
			return serve(a, r)
		default:
			return &apiError{status: http.StatusServiceUnavailable, message: fmt.Sprintf("%d queries are running: try again later", cap(h.running))}
		}
	}
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

// cors answers preflight requests and allows origins, as RpcHandler.applyCorsConfig does.
func (h *handler) cors(w http.ResponseWriter, r *http.Request) (answered bool, err error) {
	origin := r.Header.Get("Origin")
	options := r.Method == http.MethodOptions
	if !options && (len(h.corsOrigins) == 0 || origin == "") {
		return false, nil
	}
	if len(h.corsOrigins) == 0 || origin == "" {
		return false, &apiError{status: http.StatusMethodNotAllowed, message: "Method not allowed",
			details: fmt.Sprintf("The HTTP method [%s] is not permitted", r.Method)}
	}
	w.Header().Add("Vary", "Origin")
	allowed := slices.ContainsFunc(h.corsOrigins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) })
	if !allowed {
		return false, &apiError{status: http.StatusOK, message: "CORS domain not allowed",
			details: fmt.Sprintf("The domain [%s] is not permitted access", origin)}
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", missingHeader)
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Origin, User-Agent, DNT, Cache-Control, "+
		"X-Mx-ReqToken, Keep-Alive, X-Requested-With, If-Modified-Since, "+partialHeader+", "+staleHeader+", "+h.databaseHeader)
	return options, nil
}

// fail answers with an error and gives its status. When a part of the answer is
// out already, the connection is cut, or, behind a server of another kind, the
// JSON ends where it is: a client must not take it for the whole.
func (h *handler) fail(a *answer, r *http.Request, err error) int {
	api := toAPIError(r.Context(), err, h.limits)
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
	if a.suffix != "" {
		text = append(append(text, r.URL.Query().Get("jsonp")...), '(')
	}
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
	a.buf = append(a.buf, a.suffix...)
	a.suffix = ""
	a.sent = true // the header that follows is the last
	a.w.WriteHeader(api.status)
	if err := a.close(); err != nil {
		return statusClientGone
	}
	return api.status
}

// database gives the database that a request is about.
func (h *handler) database(r *http.Request) string {
	if p := r.URL.Query(); p.Has("db") {
		return p.Get("db")
	}
	return r.Header.Get(h.databaseHeader)
}

// body reads the body of a request, whatever its content type says, since some
// clients call JSON a form.
func (h *handler) body(r *http.Request) ([]byte, error) {
	reader := io.Reader(r.Body)
	if r.Body == nil {
		reader = strings.NewReader("")
	}
	if strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") {
		unpacked, err := gzip.NewReader(reader)
		if err != nil {
			return nil, &apiError{status: http.StatusBadRequest, message: "Unable to decompress the body", details: err.Error()}
		}
		reader = unpacked
	}
	limit := h.limits.BodyBytesMax
	if limit > 0 {
		reader = io.LimitReader(reader, limit+1)
	}
	body, err := io.ReadAll(reader)
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &apiError{status: http.StatusBadRequest, message: "Unable to read the body", details: err.Error()}
	case err != nil:
		return nil, err
	case limit > 0 && int64(len(body)) > limit:
		return nil, &http.MaxBytesError{Limit: limit}
	case len(body) == 0:
		return nil, &apiError{status: http.StatusBadRequest, message: "Missing request content"}
	}
	return body, nil
}

// notImplemented answers for the parts of OpenTSDB's API that are about what
// TickMesh does not have: ids of names, trees, annotations, histograms.
func notImplemented(_ *answer, r *http.Request) error {
	return &apiError{status: http.StatusNotImplemented, message: "Not implemented",
		details: fmt.Sprintf("TickMesh does not have what %s is about", r.URL.Path)}
}
