package shell

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/consistency"
)

// Options are what the handler of one language is made of.
type Options struct {
	Dialect string // the language, as metrics and admission control name it
	// Source is where queries read. It is of Controller.Source, so that scans are charged to
	// their query; where Admission is nil, it is any.
	Source scan.Source
	// WithConsistency returns the source for one request with a consistency, and a function that
	// returns, once its scans have ended, the shards that are missing. Nil: Source answers these requests
	// too, and nothing is missing.
	WithConsistency func(scan.Consistency) (source scan.Source, missing func() []uint16)
	Admission       *admission.Controller // nil: one of its own, with default limits
	Clock           func() time.Time      // nil: time.Now
	Logger          *slog.Logger          // nil: nothing is logged
	Registerer      prometheus.Registerer // nil: metrics are not registered
	ByEndpoint      bool                  // requests and their times are counted by endpoint
}

// Shell serves the handler of one language. It is immutable but for its metrics, and safe for
// concurrent use.
type Shell struct {
	Admission       *admission.Controller
	Source          scan.Source // of reads that accept nothing stale or partial
	Clock           func() time.Time
	Log             *slog.Logger
	dialect         string
	withConsistency func(scan.Consistency) (scan.Source, func() []uint16)
	metrics         *metrics
}

// New returns a shell.
func New(o Options) *Shell {
	s := &Shell{
		Admission: o.Admission, Source: o.Source, Clock: o.Clock, Log: o.Logger,
		dialect: o.Dialect, withConsistency: o.WithConsistency, metrics: newMetrics(o.Dialect, o.ByEndpoint, o.Registerer),
	}
	if s.Admission == nil {
		s.Admission = admission.New(admission.Options{})
		s.Source = s.Admission.Source(s.Source)
	}
	if s.Clock == nil {
		s.Clock = time.Now
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Run admits a query, calls serve, and ends the query with serve's error, also when it
// panics. Dialect and User of the query are filled in. Errors are those of admission.Begin and
// of serve.
func (s *Shell) Run(ctx context.Context, q admission.Query, serve func(context.Context, *admission.Entry) error) (err error) {
	q.Dialect, q.User = s.dialect, access.Of(ctx).Name()
	ctx, entry, err := s.Admission.Begin(ctx, q)
	if err != nil {
		return err
	}
	defer func() { entry.End(err) }()
	return serve(ctx, entry)
}

// Reader is where the scans of one request read.
type Reader struct {
	scan.Source
	Consistency scan.Consistency
	Missing     func() []uint16 // shards that the answer is without, once all scans have ended
	partial     prometheus.Counter
}

// Reader returns where a request with this consistency reads.
func (s *Shell) Reader(o scan.Consistency) *Reader {
	r := &Reader{Source: s.Source, Consistency: o, Missing: func() []uint16 { return nil }, partial: s.metrics.partial}
	if s.withConsistency != nil && o != (scan.Consistency{}) {
		r.Source, r.Missing = s.withConsistency(o)
	}
	return r
}

// TellMissing puts the shards that the answer is without into its header, and returns their
// text; empty: it has all. All scans have ended; nothing of the answer is out.
func (r *Reader) TellMissing(header http.Header) string {
	shards := r.Missing()
	if len(shards) == 0 {
		return ""
	}
	r.partial.Inc()
	text := consistency.Missing(shards)
	header.Set(consistency.MissingHeader, text)
	return text
}

// Failed logs an answer that is an error. What clients bring about is counted, and would fill
// a log.
func (s *Shell) Failed(r *http.Request, status int, attributes ...slog.Attr) {
	level := slog.LevelDebug
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	s.Log.LogAttrs(r.Context(), level, "query failed",
		append([]slog.Attr{slog.String("path", r.URL.Path), slog.Int("status", status)}, attributes...)...)
}

// RetryLater asks the client of a server that has too much to do to come again.
func RetryLater(header http.Header) { header.Set("Retry-After", "1") }

// Bound replaces 0 by the default and a negative limit by none, what no number reaches.
func Bound(limit *int64, byDefault, none int64) {
	switch {
	case *limit == 0:
		*limit = byDefault
	case *limit < 0:
		*limit = none
	}
}
