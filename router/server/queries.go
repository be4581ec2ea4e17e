package server

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/cache"
	"github.com/tickmesh/tickmesh/router/query/influxql"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
	"github.com/tickmesh/tickmesh/router/query/promql"
	"github.com/tickmesh/tickmesh/router/ui"
)

// queries are the query languages of a front. They share one admission control, and read through it.
type queries struct {
	settings  *Settings
	backend   *Backend
	logger    *slog.Logger
	registry  *process.Registry
	admission *admission.Controller
	source    scan.Source
	catalog   promql.Catalog // what writers say of metrics
	page      *ui.Page
}

func (s *Settings) newQueries(b *Backend, logger *slog.Logger, registry *process.Registry) *queries {
	q := &queries{settings: s, backend: b, logger: logger, registry: registry}
	ofOne, ofAll, ofCache := s.bytes(b.Memory)
	q.admission = admission.New(admission.Options{
		Limits: admission.Limits{
			SeriesMax: int64(s.querySeriesMax), SamplesMax: int64(s.querySamplesMax), BytesMax: ofOne, Timeout: time.Duration(s.queryTimeout),
		},
		RunningAllMax: orNone(int(s.queryRunningMax)), BytesAllMax: ofAll, SlowerThan: orNone(time.Duration(s.querySlow)),
		LimitsOf: b.access.queryLimits, Ended: b.access.queried,
		Logger: logger, Registerer: registry,
	})
	source := b.Source
	b.Memory.Track(memory.Queries, q.admission.Bytes)
	if s.queryCache > 0 {
		windows := cache.New(cache.Options{Bytes: ofCache, Registerer: registry})
		b.Memory.Track(memory.Cache, windows.Bytes)
		source = windows.Source(source)
	}
	q.source = q.admission.Source(auditedSource{source}) // what comes from the cache counts, too
	return q
}

// orNone returns the bound that nothing reaches for 0, which says on flags that there is none:
// to admission control 0 is its default.
func orNone[T int | time.Duration](bound T) T {
	if bound == 0 {
		return math.MaxInt
	}
	return bound
}

// withConsistency returns the source for the reads of one query that accepts stale or partial
// answers. It has no cache, since what such reads return may be old or incomplete.
func (q *queries) withConsistency(o scan.Consistency) (source scan.Source, missing func() []uint16) {
	if q.backend.WithConsistency == nil {
		return q.source, func() []uint16 { return nil }
	}
	source, missing = q.backend.WithConsistency(o)
	return q.admission.Source(auditedSource{source}), missing
}

// handler routes each dialect's paths to it. What nobody knows is answered in OpenTSDB's shape.
func (q *queries) handler() (http.Handler, error) {
	page, err := ui.New(q.pageOptions())
	if err != nil {
		return nil, err
	}
	q.page = page
	m := &endpoint.Mux{}
	m.Handle("GET /{$}", page)
	m.Handle("/ui/", page)
	m.Handle("GET /ui", page) // or the mux would send it to the page of the default database
	m.Handle("/", opentsdb.New(q.opentsdbOptions()))
	prometheus := promql.New(q.promqlOptions())
	m.Handle("/api/v1/", prometheus)
	m.Handle("/federate", prometheus)
	m.Handle("/query", influxql.New(q.influxqlOptions()))
	m.HandleFunc("/api/v2/query", influxql.RefuseFlux)
	return m, nil
}

func (q *queries) opentsdbOptions() opentsdb.Options {
	return opentsdb.Options{
		Source: q.source, Admission: q.admission, Deleter: q.backend.Deleter, WithConsistency: q.withConsistency, Logger: q.logger, Registerer: q.registry,
		Version: apiVersion(),
		Config:  map[string]string{"tsd.core.auto_create_metrics": "true", "tsd.http.query.allow_delete": "true"},
		Stats:   func(ctx context.Context) []opentsdb.Stat { return statsOf(ctx, q.registry) },
	}
}

func (q *queries) promqlOptions() promql.Options {
	b := process.CurrentBuild()
	return promql.Options{
		Source: q.source, Admission: q.admission, Deleter: q.backend.Deleter, WithConsistency: q.withConsistency, Logger: q.logger, Registerer: q.registry,
		Metadata: &q.catalog,
		Build:    promql.Build{Revision: b.Revision, BuildDate: b.Date},
	}
}

func (q *queries) influxqlOptions() influxql.Options {
	o := influxql.Options{
		Source: q.source, Admission: q.admission, Deleter: q.backend.Deleter, WithConsistency: q.withConsistency, Logger: q.logger, Registerer: q.registry,
		Retention: q.backend.retentionOf,
	}
	if who := q.backend.access; who != nil && who.directory != nil {
		o.Databases = auditedDatabases{who.directory}
	}
	return o
}

// pageOptions are those of the page. Others than browsers get a line of text at its place.
func (q *queries) pageOptions() ui.Options {
	o := ui.Options{
		Source: q.backend.Source, Status: q.backend.Cluster.Status, Admission: q.admission, Gatherer: q.registry,
		Version: process.Version, Dialects: []string{"promql", "opentsdb", "influxql"}, Logger: q.logger,
		Banner: "TickMesh " + process.Version + ": /write, /api/put, /api/v1/write and /v1/metrics take points, /api/query and /api/v1/query answer, " +
			"/metrics and /readyz tell how it is. Browsers get a page here.",
	}
	if who := q.backend.access; who != nil && who.directory != nil {
		o.Databases = who.directory.List
	}
	return o
}

// newSignInPage returns what the page's browsers get while nobody knows who is there.
func newSignInPage() (*ingest.SignInPage, error) {
	body, policy, err := ui.SignInPage()
	return &ingest.SignInPage{Body: body, Policy: policy}, err
}

func apiVersion() opentsdb.Version {
	b := process.CurrentBuild()
	return opentsdb.Version{ShortRevision: b.Revision, FullRevision: b.Revision, Repo: "tickmesh " + b.Version}
}
