package opentsdb

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Options is what a Handler is made of. Only Source is needed; every other
// field has a default.
type Options struct {
	Source scan.Source // of Controller.Source, so that scans are charged to their query
	// Admission admits queries and bounds their time and memory. nil: one of its own,
	// with its defaults.
	Admission *admission.Controller
	Deleter   scan.Deleter // nil: requests that delete are refused
	// WithConsistency returns the source for the scans of one request with a consistency
	// (parameters partial and stale_ms, or headers X-Tickmesh-Partial and
	// X-Tickmesh-Stale-Ms), and a function that returns, once they have ended, the shards that are missing.
	// The answer names these in the header X-Tickmesh-Missing-Shards; its status is 200,
	// because clients like Grafana show no other. nil: Source answers these requests too,
	// and nothing is missing.
	WithConsistency func(scan.Consistency) (source scan.Source, missing func() []uint16)
	Clock           func() time.Time      // nil: time.Now
	Logger          *slog.Logger          // nil: nothing is logged
	Registerer      prometheus.Registerer // nil: metrics are not registered

	Limits  Limits
	Version Version
	Config  map[string]string            // what /api/config answers; nil: an empty object
	Stats   func(context.Context) []Stat // what /api/stats answers a caller; nil: an empty list
}

// Limits bound what one request may ask for; what it may cost is admission control's concern. 0
// takes the default, a negative number lifts the bound.
type Limits struct {
	PointsMax     int64 // points of one request's answer; default 100,000,000
	BodyBytesMax  int64 // size of a request's body, decompressed; default 4 MiB
	SubQueriesMax int64 // sub-queries of one request; default 256
	NamesMax      int64 // names or series that suggest and lookup answer; default 100,000
	Parallel      int   // visitors of one scan; default GOMAXPROCS
}

// Version is what /api/version answers. What else OpenTSDB tells there is empty.
type Version struct {
	Version       string // default "2.4.0", the API that is served
	ShortRevision string
	FullRevision  string
	Repo          string
}

// Stat is one figure of /api/stats.
type Stat struct {
	Metric string
	TimeMs int64
	Value  float64
	Tags   map[string]string
}

// New returns the handler of every path below /api that reads or deletes:
// query, query/last, suggest, search/lookup, aggregators, config,
// config/filters, version, stats, stats/query, serializers, dropcaches. What
// OpenTSDB has beside these gets 501 or 404 and a reason, any other path 404,
// all in OpenTSDB's error shape.
func New(options Options) http.Handler {
	return newHandler(options)
}
