package shell

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/ledger"
	"github.com/tickmesh/tickmesh/router/query/relax"
)

// Options are what the handler of one language is made of.
type Options struct {
	Dialect string // the language, as metrics and the ledger name it
	// Source is where queries read. It is of Ledger.Source, so that scans are charged to
	// their query; where Ledger is nil, it is any.
	Source scan.Source
	// Relaxed gives the source for one request that puts up with something, and tells, once
	// its scans have ended, the shards that are missing. Nil: Source answers these requests
	// too, and nothing is missing.
	Relaxed    func(scan.Relaxation) (source scan.Source, missing func() []uint16)
	Ledger     *ledger.Ledger        // nil: one of its own, with default limits
	Clock      func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
	ByEndpoint bool                  // requests and their times are counted by endpoint
}

// Shell serves the handler of one language. It is immutable but for its metrics, and safe for
// concurrent use.
type Shell struct {
	Ledger  *ledger.Ledger
	Source  scan.Source // of reads that put up with nothing
	Clock   func() time.Time
	Log     *slog.Logger
	dialect string
	relaxed func(scan.Relaxation) (scan.Source, func() []uint16)
	metrics *metrics
}

// New returns a shell.
func New(o Options) *Shell {
	s := &Shell{
		Ledger: o.Ledger, Source: o.Source, Clock: o.Clock, Log: o.Logger,
		dialect: o.Dialect, relaxed: o.Relaxed, metrics: newMetrics(o.Dialect, o.ByEndpoint, o.Registerer),
	}
	if s.Ledger == nil {
		s.Ledger = ledger.New(ledger.Options{})
		s.Source = s.Ledger.Source(s.Source)
	}
	if s.Clock == nil {
		s.Clock = time.Now
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Run lets a query in, calls serve, and ends the query with serve's error, also when it
// panics. Dialect and User of the query are filled in. Errors are those of ledger.Begin and
// of serve.
func (s *Shell) Run(ctx context.Context, q ledger.Query, serve func(context.Context, *ledger.Entry) error) (err error) {
	q.Dialect, q.User = s.dialect, access.Of(ctx).Name()
	ctx, entry, err := s.Ledger.Begin(ctx, q)
	if err != nil {
		return err
	}
	defer func() { entry.End(err) }()
	return serve(ctx, entry)
}

// Reader is where the scans of one request read.
type Reader struct {
	scan.Source
	Consistency scan.Relaxation
	Missing     func() []uint16 // shards that the answer is without, once all scans have ended
	partial     prometheus.Counter
}

// Reader returns where a request with this relaxation reads.
func (s *Shell) Reader(o scan.Relaxation) *Reader {
	r := &Reader{Source: s.Source, Consistency: o, Missing: func() []uint16 { return nil }, partial: s.metrics.partial}
	if s.relaxed != nil && o != (scan.Relaxation{}) {
		r.Source, r.Missing = s.relaxed(o)
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
	text := relax.Missing(shards)
	header.Set(relax.MissingHeader, text)
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
