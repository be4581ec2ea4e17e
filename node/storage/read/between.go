package read

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// dated is a Source of which lists are held to a range of time.
type dated struct {
	*Source
	names        Names
	fromMs, toMs int64
}

// Between implements scan.Dated.
func (s *Source) Between(fromMs, toMs int64) scan.Source {
	return dated{s, s.NamesOf(nil).Between(fromMs, toMs), fromMs, toMs}
}

// Series implements scan.Source.
func (d dated) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	return d.SeriesBetween(ctx, selector, d.fromMs, d.toMs, limit, visit)
}

// Metrics implements scan.Source.
func (d dated) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return d.names.Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (d dated) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return d.names.TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source.
func (d dated) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return d.names.TagValues(ctx, database, metric, name, prefix, limit)
}
