package promql

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/metadata"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Options is what a handler is made of. Only Source is needed; every other field has a
// default.
type Options struct {
	// Source is what is read. It charges the entry of its context (admission.Controller.Source).
	Source scan.Source
	// Deleter removes series for /api/v1/admin/tsdb/delete_series; nil: refused, as
	// Prometheus does without --web.enable-admin-api.
	Deleter scan.Deleter
	// WithConsistency returns the source for one request that accepts a partial or old answer (parameters
	// partial and stale_ms, or headers X-Tickmesh-Partial and X-Tickmesh-Stale-Ms), and
	// tells, once its scans have ended, the shards that are missing. The answer names them
	// in a warning and in the header X-Tickmesh-Missing-Shards. Nil: Source answers these
	// requests too, and nothing is missing.
	WithConsistency func(scan.Consistency) (source scan.Source, missing func() []uint16)
	Admission       *admission.Controller // nil: one of its own, with default limits
	// Metadata knows what metrics mean, by their names; nil: nothing is known.
	Metadata Metadata
	// Exemplars are asked by query_exemplars; nil: there are none.
	Exemplars  scan.ExemplarSource
	Rules      Rules                 // nil: there are none
	Clock      func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
	Build      Build

	LookbackDelta time.Duration // how old a sample may be to count at a step; default 5 minutes
	SamplesMax    int           // samples that the engine holds for one query at once; default 50,000,000
	BodyBytesMax  int64         // size of a request's body; default 4 MiB, of remote read decompressed 32 MiB
	NamesMax      int           // names or series that one request lists; default 1,000,000
	Parallel      int           // visitors of one scan; default GOMAXPROCS
	// RulesRunningMax bounds the queries that rules make at once; default 4.
	RulesRunningMax int
	// Experimental lets expressions use what Prometheus has behind --enable-feature (ParserOptions).
	Experimental bool
	// MetricsQL answers what VictoriaMetrics takes and Prometheus refuses: range queries that leave out their step, or an
	// end of their range, and expressions that are no PromQL but MetricsQL (router/query/metricsql). Expressions of PromQL
	// have its answers still.
	MetricsQL bool
	// RawFrom returns since when all samples of a metric are kept: of hours before it the last sample is left, and answers of these
	// have a warning. Nil: there is no such time.
	RawFrom func(database, metric string) (timeMs int64)
	// DeduplicateInterval leaves, of the samples of a series that a query reads, only the newest of each interval: that of one
	// of several Prometheus that scrape the same. Intervals end at multiples of it. What is exported is as it was
	// written. 0: all samples count.
	DeduplicateInterval time.Duration
}

// Build is what /api/v1/status/buildinfo answers. Version is the one of the Prometheus API
// that is served: clients take it for what they may ask.
type Build struct {
	Version   string // default APIVersion
	Revision  string
	BuildDate string
	GoVersion string // default that of the program
}

// APIVersion is the version of Prometheus whose engine answers.
const APIVersion = "3.14.0"

// Metadata returns what is known of metrics. Safe for concurrent use.
type Metadata interface {
	// Metadata returns what is known of one metric, or with an empty name of all, of at
	// most limit metrics (0: all).
	Metadata(database, metric string, limit int) []metadata.Description
}

// ParserOptions returns what the parser of expressions takes; experimental: also what Prometheus has behind
// --enable-feature=promql-experimental-functions, promql-duration-expr, promql-extended-range-selectors and
// promql-binop-fill-modifiers.
func ParserOptions(experimental bool) parser.Options {
	return parser.Options{
		EnableExperimentalFunctions: experimental, ExperimentalDurationExpr: experimental,
		EnableExtendedRangeSelectors: experimental, EnableBinopFillModifiers: experimental,
	}
}

func (o *Options) setDefaults() {
	if o.LookbackDelta <= 0 {
		o.LookbackDelta = 5 * time.Minute
	}
	if o.SamplesMax <= 0 {
		o.SamplesMax = 50_000_000
	}
	if o.BodyBytesMax <= 0 {
		o.BodyBytesMax = 4 << 20
	}
	if o.NamesMax <= 0 {
		o.NamesMax = 1_000_000
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.RulesRunningMax <= 0 {
		o.RulesRunningMax = 4
	}
	if o.Rules == nil {
		o.Rules = noRules{}
	}
	if o.Build.Version == "" {
		o.Build.Version = APIVersion
	}
	if o.Build.GoVersion == "" {
		o.Build.GoVersion = runtime.Version()
	}
}
