package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Read describes how an answer may be made.
type Read struct {
	// Limits bound what the query may cost; 0: the server's own bounds.
	Limits scan.Limits
	// StalenessMax lets any full copy answer that is at most so far behind. 0: the
	// answer has every write that was answered before.
	StalenessMax time.Duration
	// AllowPartial lets shards be missing that nobody answers for. The last thing of
	// such an answer is a *PartialError.
	AllowPartial bool
	// Snapshot is what Client.TakeSnapshot gave: its contents are read. Only Query and names look at it.
	Snapshot string
}

func (r *Read) freshness() *tickmeshv1.Freshness {
	return &tickmeshv1.Freshness{StalenessMaxMs: uint64(max(0, r.StalenessMax.Milliseconds()))}
}

// Query asks for samples in [FromMs, ToMs], both inclusive, milliseconds since 1970
// UTC.
type Query struct {
	Selector     scan.Selector // Shards are not used
	FromMs, ToMs int64
	Windows      *scan.Windows // nil: samples
	Read
}

// Chunk is a stretch of one series. With windows TimesMs has their starts, and those
// of the other columns that were asked for have the same length; else Values has.
// Chunks of one series come in order of time, without another series between.
type Chunk struct {
	Series  *Series
	TimesMs []int64
	Values  []float64

	Sum, Min, Max, First, Last []float64
	Count                      []int64
	Digest                     []uint64 // see scan.AggregateDigest
	Hidden                     []int64  // see scan.AggregateHidden
}

// Query returns the chunks of an answer as they arrive. An error is the last thing that
// it yields: an answer that ended without one is complete. Whoever stops early ends
// the query. Before the first chunk the query is tried again elsewhere, as long as
// the context lasts. Errors: a *scan.LimitError, *PartialError, and the kinds of this
// package.
func (c *Client) Query(ctx context.Context, q Query) iter.Seq2[*Chunk, error] {
	request := &tickmeshv1.ScanRequest{
		Selector: wire.FromSelector(&q.Selector), FromMs: q.FromMs, ToMs: q.ToMs, Windows: wire.FromWindows(q.Windows),
		Limits: wire.FromLimits(q.Limits), Freshness: q.freshness(), AllowPartial: q.AllowPartial, Snapshot: q.Snapshot,
	}
	return func(yield func(*Chunk, error) bool) {
		var series *Series
		stream(ctx, c, yield, func(ctx context.Context, s tickmeshv1.QueryServiceClient) (grpc.ServerStreamingClient[tickmeshv1.ScanResponse], error) {
			return s.Scan(ctx, request)
		}, func(m *tickmeshv1.ScanResponse, yield func(*Chunk) bool) ([]uint32, error) {
			for _, part := range m.GetChunks() {
				chunk, err := chunkOf(part, &series)
				if err != nil {
					return nil, err
				}
				if !yield(chunk) {
					return nil, nil
				}
			}
			return m.GetShardsMissing(), nil
		})
	}
}

// chunkOf returns the chunk of a message; series is that of the one before it.
func chunkOf(m *tickmeshv1.SeriesChunk, series **Series) (*Chunk, error) {
	if m.GetSeries() != nil {
		s, err := seriesOf(m.GetSeries())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInternal, err)
		}
		*series = s
	}
	if *series == nil {
		return nil, fmt.Errorf("%w: a chunk without a series", ErrInternal)
	}
	var columns scan.Chunk
	if err := wire.SetChunk(&columns, m.GetColumns()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInternal, err)
	}
	return &Chunk{
		Series: *series, TimesMs: columns.Times, Values: columns.Values, Count: columns.Count,
		Sum: columns.Sum, Min: columns.Min, Max: columns.Max, First: columns.First, Last: columns.Last, Digest: columns.Digest, Hidden: columns.Hidden,
	}, nil
}

// errStopped ends a stream that its caller wants no more of.
var errStopped = errors.New("stopped by the caller")

// stream runs a call whose answer is a stream and yields what read makes of its
// messages. It tries again elsewhere until a message has come. Read's yield returns
// false when the caller wants no more; read returns the shards that are missing.
func stream[M, T any](ctx context.Context, c *Client, yield func(T, error) bool,
	begin func(context.Context, tickmeshv1.QueryServiceClient) (grpc.ServerStreamingClient[M], error),
	read func(m *M, yield func(T) bool) (missing []uint32, err error),
) {
	began := false
	err := c.call(ctx, 0, func(ctx context.Context, e *endpoint) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the call when the caller stops early
		s, err := begin(ctx, tickmeshv1.NewQueryServiceClient(e.conn))
		for err == nil {
			var m *M
			if m, err = s.Recv(); err != nil {
				break
			}
			began = true
			err = yieldMessage(ctx, m, yield, read)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errStopped), errors.Is(err, ErrPartial):
			return err
		case began:
			return &streamError{errorOf(err)}
		}
		return errorOf(err)
	})
	if broken, ok := errors.AsType[*streamError](err); ok {
		err = broken.err
	}
	if err != nil && !errors.Is(err, errStopped) {
		var none T
		yield(none, err)
	}
}

// yieldMessage yields what read makes of one message.
func yieldMessage[M, T any](ctx context.Context, m *M, yield func(T, error) bool, read func(m *M, yield func(T) bool) ([]uint32, error)) error {
	stopped := false
	missing, err := read(m, func(v T) bool {
		if ctx.Err() != nil {
			return false
		}
		stopped = !yield(v, nil)
		return !stopped
	})
	switch {
	case !stopped && ctx.Err() != nil:
		return ctx.Err()
	case stopped:
		return errStopped
	case err == nil && len(missing) > 0:
		return &PartialError{Shards: missing}
	}
	return err
}

// streamError keeps an answer that broke in the middle from being asked for again.
type streamError struct{ err error }

// Error returns the text for people.
func (e *streamError) Error() string { return e.err.Error() }

// Last returns the newest sample, from fromMs on, of each series that matches, in no
// order. Errors as of Query.
func (c *Client) Last(ctx context.Context, selector scan.Selector, fromMs int64, r Read) iter.Seq2[Sample, error] {
	request := &tickmeshv1.LastRequest{
		Selector: wire.FromSelector(&selector), FromMs: fromMs,
		Limits: wire.FromLimits(r.Limits), Freshness: r.freshness(), AllowPartial: r.AllowPartial,
	}
	return func(yield func(Sample, error) bool) {
		stream(ctx, c, yield, func(ctx context.Context, s tickmeshv1.QueryServiceClient) (grpc.ServerStreamingClient[tickmeshv1.LastResponse], error) {
			return s.Last(ctx, request)
		}, func(m *tickmeshv1.LastResponse, yield func(Sample) bool) ([]uint32, error) {
			for _, p := range m.GetPoints() {
				s, err := seriesOf(p.GetSeries())
				if err != nil {
					return nil, fmt.Errorf("%w: %w", ErrInternal, err)
				}
				if !yield(Sample{Series: s, TimeMs: p.GetTimeMs(), Value: p.GetValue()}) {
					return nil, nil
				}
			}
			return m.GetShardsMissing(), nil
		})
	}
}

// Delete hides the samples in [fromMs, toMs], both inclusive, that were written
// before it, and returns the number of series that had some, or may have had. It is
// tried again while that may help.
func (c *Client) Delete(ctx context.Context, selector scan.Selector, fromMs, toMs int64) (seriesTouched int64, err error) {
	request := &tickmeshv1.DeleteRequest{Selector: wire.FromSelector(&selector), FromMs: fromMs, ToMs: toMs}
	err = c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		response, err := tickmeshv1.NewQueryServiceClient(e.conn).Delete(ctx, request)
		seriesTouched = response.GetSeriesTouched()
		return errorOf(err)
	})
	return seriesTouched, err
}

// TakeSnapshot has the server keep what databases have at one moment of each shard, for Query and names to be read
// from until EndSnapshot: everything that was acknowledged before the call is in it. One that is not read for 10 minutes
// ends by itself. It waits for a server that has too many, or none
// that answers, as long as the context lasts. Errors: ErrRefused and ErrVersion where the server makes none, ErrReadOnly where its
// disk does not take it.
func (c *Client) TakeSnapshot(ctx context.Context, databases []string) (name string, err error) {
	request := &tickmeshv1.TakeSnapshotRequest{}
	for _, database := range databases {
		request.Databases = append(request.GetDatabases(), []byte(database))
	}
	// Should an answer be lost, the next attempt takes another, and nobody reads the first.
	err = c.call(ctx, 0, func(ctx context.Context, e *endpoint) error {
		response, err := tickmeshv1.NewQueryServiceClient(e.conn).TakeSnapshot(ctx, request)
		name = response.GetSnapshot()
		return errorOf(err)
	})
	return name, err
}

// EndSnapshot has the server give up a snapshot. One that has ended is no error.
func (c *Client) EndSnapshot(ctx context.Context, name string) error {
	return c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		_, err := tickmeshv1.NewQueryServiceClient(e.conn).EndSnapshot(ctx, &tickmeshv1.EndSnapshotRequest{Snapshot: name})
		return errorOf(err)
	})
}
