package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/metadata"
	"github.com/tickmesh/tickmesh/router/mqtt"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/cache"
	"github.com/tickmesh/tickmesh/router/query/influxql"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
	"github.com/tickmesh/tickmesh/router/query/promql"
	"github.com/tickmesh/tickmesh/router/rules"
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
	catalog   metadata.Catalog // what writers say of metrics
	page      *ui.Page
	rules     *rules.Service  // nil: there are none
	messages  *mqtt.Service   // that are fetched beside; nil: there are none
	queries   *continuous.Set // nil: there can be none
	selected  selectedWriter

	prometheus *promql.API
	influx     *influxql.API
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
	registry.MustRegister(&q.catalog)
	source := b.Source
	b.Memory.Track(memory.Queries, q.admission.Bytes)
	if s.queryCache > 0 {
		windows := cache.New(cache.Options{Bytes: ofCache, Registerer: registry})
		b.Memory.Track(memory.Cache, windows.Bytes)
		source = windows.Source(source)
	}
	if b.Queries != nil {
		q.queries = continuous.NewSet(b.Queries, logger)
	}
	q.source = q.admission.Source(auditedSource{source}) // what comes from the cache counts, too
	return q
}

// openQueries returns the query languages with the rules of the files that are named, and their handler. Page is the URL
// of this server.
func (s *Settings) openQueries(b *Backend, page string, logger *slog.Logger, registry *process.Registry) (*queries, http.Handler, error) {
	q := s.newQueries(b, logger, registry)
	var err error
	if q.rules, err = s.openRules(b, page, promql.ParserOptions(s.promqlExperimental), registry, logger); err != nil {
		return nil, nil, err
	}
	answers, err := q.handler()
	return q, answers, err
}

// ownWriter writes what this server makes itself.
type ownWriter interface {
	rules.Writer
	influxql.Writer
}

// selectedWriter writes for InfluxQL, which is there before what writes is.
type selectedWriter struct{ writer atomic.Pointer[ownWriter] }

var errNotStarted = errors.New("this server has not started to write yet: try again")

// WriteSelected implements influxql.Writer.
func (w *selectedWriter) WriteSelected(ctx context.Context, database string, request []byte) error {
	writer := w.writer.Load()
	if writer == nil {
		return errNotStarted
	}
	err := (*writer).WriteSelected(ctx, database, request)
	audit.Of(ctx).Did(audit.Deed{Do: "select into", Database: access.Display(access.Canonical(database))}, err)
	return err
}

// run runs in group what goes on beside requests, until ctx ends: what the page remembers, what metrics mean, rules,
// and messages.
func (q *queries) run(ctx context.Context, group *sync.WaitGroup, writer ownWriter) {
	q.selected.writer.Store(&writer)
	group.Go(func() { q.page.Watch(ctx) })
	if store := q.backend.Metadata; store != nil {
		group.Go(func() { q.catalog.Run(ctx, store, time.Now, q.logger) })
	}
	if q.messages != nil {
		group.Go(func() { q.messages.Run(ctx) })
	}
	if q.rules != nil {
		group.Go(func() { q.rules.Run(ctx, q.prometheus, writer) })
	}
	if q.queries != nil {
		service := continuous.New(continuous.Options{
			Set: q.queries, Campaign: q.backend.campaign(shardmap.ElectionQueries), Parallel: q.rulesRunning(), Logger: q.logger, Registerer: q.registry,
		})
		group.Go(func() { service.Run(ctx, q.influx) })
	}
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

// snapshots returns those of the backend, which are read through admission control; nil: there are none.
func (q *queries) snapshots() api.Snapshots {
	if q.backend.Snapshots == nil {
		return nil
	}
	return admittedSnapshots{q.backend.Snapshots, q.admission}
}

type admittedSnapshots struct {
	api.Snapshots
	admission *admission.Controller
}

// SnapshotOf implements api.Snapshots.
func (s admittedSnapshots) SnapshotOf(name string) (source scan.Source, done func(), err error) {
	source, done, err = s.Snapshots.SnapshotOf(name)
	if err != nil {
		return nil, nil, err
	}
	return s.admission.Source(auditedSource{source}), done, nil
}

// handler routes each dialect's paths to it. An unknown path is answered in OpenTSDB's shape.
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
	q.prometheus = promql.New(q.promqlOptions())
	m.Handle("/api/v1/", q.prometheus)
	m.Handle("/federate", q.prometheus)
	q.influx = influxql.New(q.influxqlOptions())
	for _, path := range []string{"/query", "/api/v2/buckets", "/api/v2/buckets/", "/api/v2/orgs", "/api/v2/orgs/"} {
		m.Handle(path, q.influx)
	}
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
	o := promql.Options{
		Exemplars: q.backend.Exemplars,
		Source:    q.source, Admission: q.admission, Deleter: q.backend.Deleter, WithConsistency: q.withConsistency, Logger: q.logger, Registerer: q.registry,
		Metadata:            &q.catalog,
		RawFrom:             q.backend.rawFrom,
		MetricsQL:           q.settings.metricsQL,
		Experimental:        q.settings.promqlExperimental,
		DeduplicateInterval: time.Duration(q.settings.dedupInterval),
		Build:               promql.Build{Revision: b.Revision, BuildDate: b.Date},
		RulesRunningMax:     q.rulesRunning(),
	}
	if q.rules != nil {
		o.Rules = q.rules
	}
	return o
}

// rulesRunningMax bounds the queries of rules at once, and continuous queries, as does a quarter of the places for queries, so that
// they are in nobody's way.
const rulesRunningMax = 4

func (q *queries) rulesRunning() int {
	return min(rulesRunningMax, max(1, orNone(int(q.settings.queryRunningMax))/4))
}

func (q *queries) influxqlOptions() influxql.Options {
	b := process.CurrentBuild()
	o := influxql.Options{
		Source: q.source, Admission: q.admission, Deleter: q.backend.Deleter, WithConsistency: q.withConsistency, Logger: q.logger, Registerer: q.registry,
		Retention: q.backend.retentionOf, Writer: &q.selected, Continuous: q.queries, Metrics: q.registry.Visible,
		Build: influxql.Build{Version: b.Version, Revision: b.Revision, Date: b.Date},
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

// newSignInPage returns what the page's browsers get before a sign-in.
func newSignInPage() (*ingest.SignInPage, error) {
	body, policy, err := ui.SignInPage()
	return &ingest.SignInPage{Body: body, Policy: policy}, err
}

func apiVersion() opentsdb.Version {
	b := process.CurrentBuild()
	return opentsdb.Version{ShortRevision: b.Revision, FullRevision: b.Revision, Repo: "tickmesh " + b.Version}
}
