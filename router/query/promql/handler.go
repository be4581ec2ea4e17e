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

// deduplicateMs returns the interval of deduplication; 0: there is none.
func (h *handler) deduplicateMs() int64 { return h.options.DeduplicateInterval.Milliseconds() }
