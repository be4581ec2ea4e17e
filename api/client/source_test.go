package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// remote is a scan.Source and scan.Deleter over a client, so that the whole way there
// and back is held to what every source promises.
type remote struct{ c *client.Client }

func (r remote) Scan(ctx context.Context, q *scan.Request, visit scan.Visitor) error {
	if q.Steps != nil { // which the public API does not have
		return steps.Scan(ctx, r, q, visit)
	}
	query := client.Query{Selector: q.Selector, FromMs: q.FromMs, ToMs: q.ToMs, Windows: q.Windows, Read: client.Read{Limits: q.Limits}}
	for chunk, err := range r.c.Query(ctx, query) {
		if err != nil {
			return err
		}
		err := visit(0, &scan.Chunk{
			Key: chunk.Series.Key(), Times: chunk.TimesMs, Values: chunk.Values, Count: chunk.Count,
			Sum: chunk.Sum, Min: chunk.Min, Max: chunk.Max, First: chunk.First, Last: chunk.Last, Digest: chunk.Digest,
		})
		if errors.Is(err, scan.ErrStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r remote) Last(ctx context.Context, s *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	for sample, err := range r.c.Last(ctx, *s, fromMs, client.Read{Limits: limits}) {
		if err == nil {
			err = visit(scan.Point{Key: sample.Series.Key(), Sample: series.Sample{TimeMs: sample.TimeMs, Value: sample.Value}})
		}
		if errors.Is(err, scan.ErrStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Series counts on its own: the client has no total, as it returns all that match.
func (r remote) Series(ctx context.Context, s *scan.Selector, limit int, visit func(series.Key) error) (total int64, err error) {
	for found, err := range r.c.Series(ctx, *s, 0, client.Read{}) {
		if err != nil {
			return total, err
		}
		total++
		if limit > 0 && total > int64(limit) {
			continue
		}
		if err := visit(found.Key()); err != nil {
			if errors.Is(err, scan.ErrStopped) {
				return total, nil
			}
			return total, err
		}
	}
	return total, nil
}

func (r remote) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return r.c.Metrics(ctx, database, client.Names{Prefix: prefix, Limit: uint32(limit)})
}

func (r remote) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return r.c.TagNames(ctx, database, metric, client.Names{Prefix: prefix, Limit: uint32(limit)})
}

func (r remote) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return r.c.TagValues(ctx, database, metric, name, client.Names{Prefix: prefix, Limit: uint32(limit)})
}

func (r remote) Databases(ctx context.Context) ([]string, error) {
	return r.c.Databases(ctx, client.Names{})
}

func (r remote) Delete(ctx context.Context, s *scan.Selector, fromMs, toMs int64) (int64, error) {
	return r.c.Delete(ctx, *s, fromMs, toMs)
}

func TestSource(t *testing.T) {
	scantest.RunSourceTests(t, func(t *testing.T) scantest.Subject {
		storage := apitest.NewStorage(8)
		c, _ := start(t, storage, 1, nil)
		return scantest.Subject{Source: remote{c}, Deleter: remote{c}, Put: storage.Put}
	})
}
