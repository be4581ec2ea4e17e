package influxql

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Databases lists the databases that there are. The default database is "" and always there.
type Databases interface {
	// List returns the sorted names of all databases.
	List(ctx context.Context) ([]string, error)
	// Create makes a database; one that is there already is a success.
	Create(ctx context.Context, name string) error
	// Drop deletes a database with all its series; one that is not there is a success.
	Drop(ctx context.Context, name string) error
}

// Options is what a handler is made of. Only Source is needed; every other field has a
// default.
type Options struct {
	Source  scan.Source  // of the Controller, where that is to count and bound what is read
	Deleter scan.Deleter // nil: statements that delete are refused
	Writer  Writer       // nil: SELECT INTO is refused
	// Continuous are the continuous queries. Nil: there can be none.
	Continuous *continuous.Set
	Databases  Databases // nil: those that have series; CREATE does nothing, DROP deletes the series
	// WithConsistency returns the source for the reads of one request with a consistency
	// (parameters partial and stale_ms, or headers X-Tickmesh-Partial and
	// X-Tickmesh-Stale-Ms), and a function that returns, once they have ended, the shards that are missing.
	// nil: Source answers these requests too.
	WithConsistency func(scan.Consistency) (source scan.Source, missing func() []uint16)
	// Retention returns how long samples of a database are kept, whether there is one of the name or not (0: for ever),
	// and whether that is known. Nil: nothing is known.
	Retention func(database string) (kept time.Duration, known bool)
	// Metrics returns those of the process that a caller may see, for SHOW STATS. Nil: none.
	Metrics    func(access.Principal) prometheus.Gatherer
	Build      Build                 // for SHOW DIAGNOSTICS
	Admission  *admission.Controller // nil: one of its own, without limits
	Clock      func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered

	Limits Limits
}

// Limits bound one request, beside those of the Controller. 0 takes the default, a negative
// number lifts the bound.
type Limits struct {
	RowsMax       int64 // rows of one answer that is not chunked; the rest is cut off and the answer marked as partial; default 10,000,000
	WindowsMax    int64 // windows of one series of one SELECT, filled ones included; default 1,000,000
	StatementsMax int64 // statements of one request; default 100
	DepthMax      int64 // subqueries within subqueries; default 16
	BodyBytesMax  int64 // size of a request's form; default 4 MiB
	Parallel      int   // visitors of one scan; default GOMAXPROCS
}

// API serves /query, and buckets and organizations below /api/v2.
type API struct {
	*endpoint.Mux
	handler *handler
}

// New returns an API.
func New(options Options) *API {
	a := &API{&endpoint.Mux{}, newHandler(options)}
	a.Handle("/query", a.handler)
	a.handler.addResources(a.Mux)
	return a
}
