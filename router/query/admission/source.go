package admission

import (
	"bytes"
	"cmp"
	"context"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Source returns a source whose scans are charged to the entry of their context, and end at
// its limits.
func (c *Controller) Source(s scan.Source) scan.Source { return source{s} }

type source struct{ scan.Source }

// Between implements scan.Dated, where what is below does.
func (s source) Between(fromMs, toMs int64) scan.Source {
	return source{scan.Between(s.Source, fromMs, toMs)}
}

// Scan implements scan.Source.
func (s source) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	defer processor.Of(ctx).Pace() // before the caller sorts and computes
	e := Of(ctx)
	if e == nil {
		return s.Source.Scan(ctx, request, visit)
	}
	bounded := *request
	bounded.Limits = strictest(e.Limits(), request.Limits)
	if request.Steps != nil {
		bounded.SamplesRead = func(samples int64) error {
			if err := e.Count(0, samples); err != nil {
				return err
			}
			return request.ReadSamples(samples)
		}
	}
	// A worker sees all chunks of a series, one after the other.
	before := make([]series.Key, max(1, request.Parallel))
	return s.Source.Scan(ctx, &bounded, func(worker int, chunk *scan.Chunk) error {
		another := int64(0)
		if !bytes.Equal(before[worker], chunk.Key) || before[worker] == nil {
			before[worker] = append(before[worker][:0], chunk.Key...)
			another = 1
		}
		samples := int64(len(chunk.Times))
		if request.Steps != nil { // SamplesRead counts
			another, samples = max(another, chunk.Series), 0
		}
		if err := e.Count(another, samples); err != nil {
			return err
		}
		return visit(worker, chunk)
	})
}

// Last implements scan.Source.
func (s source) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	defer processor.Of(ctx).Pace()
	e := Of(ctx)
	if e == nil {
		return s.Source.Last(ctx, selector, fromMs, limits, visit)
	}
	return s.Source.Last(ctx, selector, fromMs, strictest(e.Limits(), limits), func(p scan.Point) error {
		if err := e.Count(1, 1); err != nil {
			return err
		}
		return visit(p)
	})
}

// Series implements scan.Source.
func (s source) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	defer processor.Of(ctx).Pace()
	return s.Source.Series(ctx, selector, limit, visit)
}

// Metrics implements scan.Source.
func (s source) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	defer processor.Of(ctx).Pace()
	return s.Source.Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (s source) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	defer processor.Of(ctx).Pace()
	return s.Source.TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source.
func (s source) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	defer processor.Of(ctx).Pace()
	return s.Source.TagValues(ctx, database, metric, name, prefix, limit)
}

func strictest(a, b scan.Limits) scan.Limits {
	return scan.Limits{
		SeriesMax: stricter(a.SeriesMax, b.SeriesMax), SamplesMax: stricter(a.SamplesMax, b.SamplesMax), BytesMax: stricter(a.BytesMax, b.BytesMax), Account: cmp.Or(a.Account, b.Account),
	}
}
