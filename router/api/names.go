package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Last streams the newest sample of each series that matches.
func (q *queryService) Last(m *tickmeshv1.LastRequest, stream grpc.ServerStreamingServer[tickmeshv1.LastResponse]) error {
	return q.run(stream.Context(), queryOf("Last", m.GetSelector()), access.Read, func(ctx context.Context) error {
		selector, err := selectorOf(m.GetSelector())
		if err != nil {
			return err
		}
		limits, err := wire.ToLimits(m.GetLimits())
		if err != nil {
			return err
		}
		source, missing := q.source(m.GetFreshness(), m.GetAllowPartial())
		var points []*tickmeshv1.LastPoint
		size := 0
		err = source.Last(ctx, &selector, clamp(m.GetFromMs()), limits, func(p scan.Point) error {
			identity, err := seriesOf(p.Key)
			if err != nil {
				return err
			}
			points = append(points, &tickmeshv1.LastPoint{Series: identity, TimeMs: p.TimeMs, Value: p.Value})
			if size += len(p.Key); len(points) < namesPerMessage && size < nameBytes {
				return nil
			}
			full := points
			points, size = nil, 0
			return stream.Send(&tickmeshv1.LastResponse{Points: full}) // on any goroutine, idle as Source says: ctx has the work of this one
		})
		if err != nil {
			return err
		}
		return idleWhile(ctx, stream.Send)(&tickmeshv1.LastResponse{Points: points, ShardsMissing: missing()})
	})
}

// seriesOf returns the message of a key that is not kept.
func seriesOf(k series.Key) (*tickmeshv1.Series, error) {
	m, err := wire.FromKey(slices.Clone(k))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrInternal, err)
	}
	return m, nil
}

// ListSeries streams the series that match.
func (q *queryService) ListSeries(m *tickmeshv1.ListSeriesRequest, stream grpc.ServerStreamingServer[tickmeshv1.ListSeriesResponse]) error {
	return q.run(stream.Context(), queryOf("ListSeries", m.GetSelector()), access.Read, func(ctx context.Context) error {
		selector, err := selectorOf(m.GetSelector())
		if err != nil {
			return err
		}
		source, missing := q.source(m.GetFreshness(), m.GetAllowPartial())
		send := idleWhile(ctx, stream.Send)
		var list []*tickmeshv1.Series
		size := 0
		total, err := source.Series(ctx, &selector, int(m.GetLimit()), func(k series.Key) error {
			identity, err := seriesOf(k)
			if err != nil {
				return err
			}
			list = append(list, identity)
			if size += len(k); len(list) < namesPerMessage && size < nameBytes {
				return nil
			}
			full := list
			list, size = nil, 0
			return send(&tickmeshv1.ListSeriesResponse{Series: full})
		})
		if err != nil {
			return err
		}
		return send(&tickmeshv1.ListSeriesResponse{Series: list, Total: total, ShardsMissing: missing()})
	})
}

// ListNames returns databases, metrics, names of tags or their values.
func (q *queryService) ListNames(m *tickmeshv1.ListNamesRequest, stream grpc.ServerStreamingServer[tickmeshv1.ListNamesResponse]) error {
	right, database := access.Read, string(m.GetDatabase())
	if m.GetKind() == tickmeshv1.NameKind_NAME_KIND_DATABASE {
		right, database = 0, access.Everything // each sees those that it may read
	}
	return q.run(stream.Context(), admission.Query{Database: database, Text: "ListNames " + m.GetKind().String()}, right, func(ctx context.Context) error {
		names, leftOut, err := q.names(ctx, m)
		if err != nil {
			return err
		}
		send := idleWhile(ctx, stream.Send)
		var list [][]byte
		size := 0
		for _, name := range names {
			list = append(list, []byte(name))
			if size += len(name); len(list) < namesPerMessage && size < nameBytes {
				continue
			}
			if err := send(&tickmeshv1.ListNamesResponse{Names: list}); err != nil {
				return err
			}
			list, size = nil, 0
		}
		if len(list) == 0 && !leftOut {
			return nil
		}
		return send(&tickmeshv1.ListNamesResponse{Names: list, LeftOut: leftOut})
	})
}

// names returns the names that are asked for, and whether names were left out because the
// caller may not read what they are of.
func (q *queryService) names(ctx context.Context, m *tickmeshv1.ListNamesRequest) (names []string, leftOut bool, err error) {
	source, _, done, err := q.sourceOf(m.GetSnapshot(), m.GetFreshness(), false)
	if err != nil {
		return nil, false, err
	}
	defer done()
	database, metric, prefix, limit := access.Canonical(string(m.GetDatabase())), string(m.GetMetric()), string(m.GetPrefix()), int(m.GetLimit())
	switch m.GetKind() {
	case tickmeshv1.NameKind_NAME_KIND_DATABASE:
		all, err := source.Databases(ctx)
		all = slices.DeleteFunc(all, func(name string) bool {
			denied := !access.Of(ctx).May(name, access.Read)
			leftOut = leftOut || denied
			return denied || !strings.HasPrefix(name, prefix)
		})
		if limit > 0 && len(all) > limit {
			all = all[:limit]
		}
		return all, leftOut, err
	case tickmeshv1.NameKind_NAME_KIND_METRIC:
		names, err = source.Metrics(ctx, database, prefix, limit)
	case tickmeshv1.NameKind_NAME_KIND_TAG_NAME:
		names, err = source.TagNames(ctx, database, metric, prefix, limit)
	case tickmeshv1.NameKind_NAME_KIND_TAG_VALUE:
		names, err = source.TagValues(ctx, database, metric, string(m.GetTagName()), prefix, limit)
	default:
		err = fmt.Errorf("%w: unknown kind of names %d", wire.ErrInvalid, m.GetKind())
	}
	return names, false, err
}
