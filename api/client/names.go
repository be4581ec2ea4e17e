package client

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Series returns the series that match, at most limit of them (0: all), in no order.
// Errors as of Query.
func (c *Client) Series(ctx context.Context, selector scan.Selector, limit uint32, r Read) iter.Seq2[*Series, error] {
	request := &tickmeshv1.ListSeriesRequest{
		Selector: wire.FromSelector(&selector), Limit: limit, Freshness: r.freshness(), AllowPartial: r.AllowPartial,
	}
	return func(yield func(*Series, error) bool) {
		stream(ctx, c, yield, func(ctx context.Context, s tickmeshv1.QueryServiceClient) (grpc.ServerStreamingClient[tickmeshv1.ListSeriesResponse], error) {
			return s.ListSeries(ctx, request)
		}, func(m *tickmeshv1.ListSeriesResponse, yield func(*Series) bool) ([]uint32, error) {
			for _, list := range m.GetSeries() {
				s, err := seriesOf(list)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", ErrInternal, err)
				}
				if !yield(s) {
					return nil, nil
				}
			}
			return m.GetShardsMissing(), nil
		})
	}
}

// Names restricts names.
type Names struct {
	Prefix string // only names that start so
	Limit  uint32 // at most so many, the first in order of their bytes; 0: all
	// Snapshot is what Client.TakeSnapshot gave: its names are listed.
	Snapshot string
}

// Databases returns the databases that have series and that the caller may read.
func (c *Client) Databases(ctx context.Context, n Names) ([]string, error) {
	names, _, err := c.ReadableDatabases(ctx, n)
	return names, err
}

// ReadableDatabases is Databases. LeftOut reports whether there are others that the caller may
// not read.
func (c *Client) ReadableDatabases(ctx context.Context, n Names) (names []string, leftOut bool, err error) {
	return c.namesOf(ctx, n, &tickmeshv1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_DATABASE})
}

// Metrics returns the metrics of a database.
func (c *Client) Metrics(ctx context.Context, database string, n Names) ([]string, error) {
	return c.names(ctx, n, &tickmeshv1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_METRIC, Database: []byte(database)})
}

// TagNames returns the names of the tags of a metric; of all metrics when it is empty.
func (c *Client) TagNames(ctx context.Context, database, metric string, n Names) ([]string, error) {
	return c.names(ctx, n, &tickmeshv1.ListNamesRequest{
		Kind: tickmeshv1.NameKind_NAME_KIND_TAG_NAME, Database: []byte(database), Metric: []byte(metric),
	})
}

// TagValues returns the values of a tag; an empty metric means all metrics, an empty
// tag all tags.
func (c *Client) TagValues(ctx context.Context, database, metric, tag string, n Names) ([]string, error) {
	return c.names(ctx, n, &tickmeshv1.ListNamesRequest{
		Kind: tickmeshv1.NameKind_NAME_KIND_TAG_VALUE, Database: []byte(database), Metric: []byte(metric), TagName: []byte(tag),
	})
}

func (c *Client) names(ctx context.Context, n Names, request *tickmeshv1.ListNamesRequest) ([]string, error) {
	names, _, err := c.namesOf(ctx, n, request)
	return names, err
}

func (c *Client) namesOf(ctx context.Context, n Names, request *tickmeshv1.ListNamesRequest) (names []string, leftOut bool, err error) {
	request.Prefix, request.Limit, request.Freshness = []byte(n.Prefix), n.Limit, (&Read{}).freshness()
	request.Snapshot = n.Snapshot
	var failed error
	stream(ctx, c, func(name string, err error) bool {
		if err != nil {
			failed = err
			return false
		}
		names = append(names, name)
		return true
	}, func(ctx context.Context, s tickmeshv1.QueryServiceClient) (grpc.ServerStreamingClient[tickmeshv1.ListNamesResponse], error) {
		return s.ListNames(ctx, request)
	}, func(m *tickmeshv1.ListNamesResponse, yield func(string) bool) ([]uint32, error) {
		leftOut = leftOut || m.GetLeftOut()
		for _, name := range m.GetNames() {
			if !yield(string(name)) {
				return nil, nil
			}
		}
		return nil, nil
	})
	if failed != nil {
		return nil, false, failed
	}
	return names, leftOut, nil
}
