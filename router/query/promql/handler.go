package promql

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

const pathPrefix = "/api/v1/"

// dialect is the language, as metrics and admission control name it.
const dialect = "promql"

// handler serves the API. It is immutable but for what it counts.
type handler struct {
	options   Options
	started   time.Time
	engine    *promql.Engine
	parser    parser.Parser // of what clients send
	prepared  *prepared     // of the engine
	shell     *shell.Shell
	endpoints map[string]endpoint
	values    endpoint // label/NAME/values
	federated endpoint // pathFederate

	cardinalities cardinalities
	zips          *sync.Pool // of writers of compressed answers
	encoders      *sync.Pool // of *encoder
}

// endpoint is one path of the API.
type endpoint struct {
	methods []string
	right   access.Right // on the database; 0: it tells of none
	reads   bool         // it is a query: it takes a place in admission control
	serve   func(*exchange) error
	several bool // it may be asked of several databases
}

// exchange is one request and its answer under way.
type exchange struct {
	ctx  context.Context
	r    *http.Request
	form url.Values
	// databases are those that are meant, canonical: one, unless the endpoint takes several. database is the first of them.
	databases []string
	database  string
	entry     *admission.Entry
	out       *encoder
	reader    *shell.Reader
}

func newHandler(o Options) *handler {
	o.setDefaults()
	h := &handler{options: o, cardinalities: cardinalities{kept: map[string]*cardinality{}}, zips: newZips(), encoders: newEncoders()}
	h.shell = shell.New(shell.Options{Dialect: dialect, ByEndpoint: true, Source: o.Source, WithConsistency: o.WithConsistency, Admission: o.Admission,
		Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer})
	h.started = h.shell.Clock()
	h.parser = parser.NewParser(ParserOptions(o.Experimental))
	h.prepared = &prepared{Parser: h.parser}
	h.engine = promql.NewEngine(promql.EngineOpts{
		Logger: h.shell.Log, MaxSamples: o.SamplesMax, LookbackDelta: o.LookbackDelta, Parser: h.prepared,
		Timeout:                  100 * 365 * 24 * time.Hour, // admission control has the time limit
		NoStepSubqueryIntervalFn: func(int64) int64 { return defaultStepMs },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnablePerStepStats: true,
	})
	get := []string{http.MethodGet, http.MethodHead}
	both := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	query := func(serve func(*exchange) error) endpoint { return endpoint{both, access.Read, true, serve, true} }
	told := func(serve func(*exchange) error) endpoint { return endpoint{get, access.Read, false, serve, false} }
	h.endpoints = map[string]endpoint{
		"query": query(h.query), "query_range": query(h.queryRange),
		"series": query(h.series), "labels": query(h.labelNames), "status/tsdb": {get, access.Read, true, h.cardinality, false},
		"read":            {[]string{http.MethodPost}, access.Read, true, h.remoteRead, true},
		"query_exemplars": query(h.exemplars), "export": query(h.export), "export/csv": query(h.exportCSV), "export/parquet": query(h.exportParquet),
		"format_query": query(h.formatQuery), "parse_query": query(h.parseQuery),
		"metadata": {get, access.Read, false, h.metadata, true}, "targets/metadata": told(h.targetMetadata), "targets": told(h.targets),
		"rules": told(h.rules), "alerts": told(h.alerts), "alertmanagers": told(h.alertmanagers),
		"status/buildinfo": {get, 0, false, h.buildInfo, false}, "status/runtimeinfo": {get, 0, false, h.runtimeInfo, false},
		"status/config": {get, 0, false, h.showConfig, false}, "status/flags": {get, 0, false, h.showFlags, false},
		"admin/tsdb/delete_series":    {[]string{http.MethodPost, http.MethodPut}, access.Admin, true, h.deleteSeries, false},
		"admin/tsdb/clean_tombstones": {[]string{http.MethodPost, http.MethodPut}, access.Admin, false, h.cleanTombstones, false},
	}
	h.values = endpoint{get, access.Read, true, h.labelValues, true}
	h.federated = endpoint{get, access.Read, true, h.federate, true}
	return h
}

// deduplicateMs returns the interval of deduplication; 0: there is none.
func (h *handler) deduplicateMs() int64 { return h.options.DeduplicateInterval.Milliseconds() }

// find returns the endpoint of a path, and the name by which it is counted.
func (h *handler) find(path string) (name string, e endpoint, ok bool) {
	if path == pathFederate {
		return "federate", h.federated, true
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, pathPrefix), "/")
	if e, ok = h.endpoints[path]; ok {
		return path, e, true
	}
	if labelOf(path) != "" {
		return "label", h.values, true
	}
	return "other", endpoint{}, false
}

// labelOf returns NAME of label/NAME/values; it may contain slashes.
func labelOf(path string) string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, pathPrefix), "/")
	rest, begins := strings.CutPrefix(path, "label/")
	name, ends := strings.CutSuffix(rest, "/values")
	if !begins || !ends {
		return ""
	}
	return name
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, e, ok := h.find(r.URL.Path)
	ended, status := h.shell.Begin(), http.StatusInternalServerError // where it panics
	defer func() { ended(name, status) }()
	out, _ := h.encoders.Get().(*encoder)
	out.reuse(w)
	x := &exchange{ctx: r.Context(), r: r, out: out}
	if acceptsGzip(r) {
		x.out.zips = h.zips
	}
	answered := http.StatusOK
	var err error
	switch {
	case r.Method == http.MethodOptions:
		answered = http.StatusNoContent
		w.WriteHeader(answered)
	case !ok:
		err = &apiError{http.StatusNotFound, kindNotFound, fmt.Errorf("there is no %s", r.URL.Path)}
	case !slices.Contains(e.methods, r.Method):
		w.Header().Set("Allow", strings.Join(e.methods, ", "))
		err = &apiError{http.StatusMethodNotAllowed, kindBadData, fmt.Errorf("%s takes no %s", r.URL.Path, r.Method)}
	default:
		err = h.serve(x, e)
	}
	if err == nil {
		err = x.out.close()
	}
	begun := out.sent
	if err != nil {
		answered = h.fail(x, err)
	}
	status = answered
	out.reuse(nil)
	h.encoders.Put(out)
	if err != nil && begun {
		panic(http.ErrAbortHandler) // how net/http wants to be told to cut the connection
	}
}

// serve reads the parameters, asks for the right and, for queries, for a place.
func (h *handler) serve(x *exchange, e endpoint) (err error) {
	if x.form, err = readForm(x.r, h.options.BodyBytesMax); err != nil {
		return err
	}
	if e.right != 0 {
		if err := x.readDatabases(e); err != nil {
			return err
		}
	}
	if x.reader, err = h.readerOf(x.r, x.form); err != nil {
		return err
	}
	if len(x.databases) > 1 {
		x.reader.Source = &tenants{x.reader.Source, x.databases}
	}
	if !e.reads {
		return e.serve(x)
	}
	timeout, err := durationParameter(x.form, "timeout")
	if err != nil {
		return err
	}
	if timeout != 0 { // of the wait for a place, too
		var cancel context.CancelFunc
		x.ctx, cancel = context.WithTimeoutCause(x.ctx, timeout, admission.ErrTimeout)
		defer cancel()
	}
	return h.shell.Run(x.ctx, admission.Query{Database: x.database, Others: x.databases[1:], Text: textOf(x)}, func(ctx context.Context, entry *admission.Entry) error {
		x.ctx, x.entry = ctx, entry
		if err := e.serve(x); err != nil {
			return err
		}
		return x.out.close()
	})
}

// readDatabases finds out which databases a request means, and whether the caller has the right on all of them.
func (x *exchange) readDatabases(e endpoint) (err error) {
	if e.several {
		x.databases, err = access.Databases(x.r, x.form)
	} else {
		x.databases = make([]string, 1)
		x.databases[0], err = access.Database(x.r, x.form)
	}
	if err != nil {
		return badData(err)
	}
	x.database = x.databases[0]
	for _, database := range x.databases {
		if err := access.Check(x.ctx, database, e.right); err != nil {
			return err
		}
	}
	return nil
}

// invalidQuery is how Prometheus answers an expression that it does not take.
func invalidQuery(err error) error { return invalidParameter(err, "query") }

// expression parses the parameter query, which a client sent; refuse makes the answer to one that
// is not taken.
func (h *handler) expression(x *exchange, refuse func(error) error) (parser.Expr, error) {
	return h.parseText(x, x.form.Get("query"), refuse)
}

// parse is expression of any text.
func (h *handler) parse(x *exchange, text string) (parser.Expr, error) {
	return h.parseText(x, text, invalidQuery)
}

func (h *handler) parseText(x *exchange, text string, refuse func(error) error) (parser.Expr, error) {
	m, err := measure(text)
	if err != nil {
		return nil, refuse(err)
	}
	if err := x.entry.Take(m.Bytes()); err != nil {
		return nil, err
	}
	expr, err := h.parser.ParseExpr(text)
	if err != nil {
		return nil, refuse(err)
	}
	taken := m.Bytes()
	if err := measureLabels(m, expr); err != nil {
		return nil, refuse(err)
	}
	if err := x.entry.Take(m.Bytes() - taken); err != nil {
		return nil, err
	}
	return expr, x.ctx.Err()
}

// textOf returns what a request asks for, for people.
func textOf(x *exchange) string {
	if text := x.form.Get("query"); text != "" {
		return text
	}
	text := strings.TrimPrefix(x.r.URL.Path, pathPrefix)
	if match := x.form["match[]"]; len(match) > 0 {
		text += " " + strings.Join(match, " ")
	}
	return text
}

// fail answers with an error, unless a part of the answer is out, and returns its status. In
// that case the connection is to be cut: a client must not take the part for the whole.
func (h *handler) fail(x *exchange, err error) int {
	api := toAPIError(x.ctx, err)
	if x.out.err != nil {
		api = &apiError{shell.StatusClientGone, kindCanceled, x.out.err}
	}
	h.shell.Failed(x.r, api.status, slog.Any("err", api.err))
	if x.out.sent {
		return api.status
	}
	if api.kind == kindUnavailable {
		shell.RetryLater(x.out.w.Header())
	}
	x.out.fail(api)
	return api.status
}
