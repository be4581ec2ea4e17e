package fanout

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// dated is a Source of which lists are held to a range of time. What it misses is what the
// Source misses.
type dated struct {
	*Source
	fromMs, toMs int64 // not both 0
}

// Between implements scan.Dated.
func (s *Source) Between(fromMs, toMs int64) scan.Source {
	if fromMs == 0 && toMs == 0 {
		toMs = 1 // the message has no other word for it, and indexes know days only
	}
	return dated{s, fromMs, toMs}
}

func (d dated) within(r *nodev1.ListNamesRequest) *nodev1.ListNamesRequest {
	r.FromMs, r.ToMs = d.fromMs, d.toMs
	return r
}

// Metrics implements scan.Source.
func (d dated) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return d.names(ctx, limit, d.within(metricsRequest(database, prefix)))
}

// TagNames implements scan.Source.
func (d dated) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return d.names(ctx, limit, d.within(tagNamesRequest(database, metric, prefix)))
}

// TagValues implements scan.Source.
func (d dated) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return d.names(ctx, limit, d.within(tagValuesRequest(database, metric, name, prefix)))
}

// Series implements scan.Source.
func (d dated) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	return d.series(ctx, &nodev1.ListSeriesRequest{FromMs: d.fromMs, ToMs: d.toMs}, selector, limit, visit)
}
