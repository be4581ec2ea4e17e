package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// queryService is the QueryService.
type queryService struct {
	tickmeshv1.UnimplementedQueryServiceServer
	s *Server
}

// run runs one query as one of admission control's, of a caller who has a right on its database, and
// returns the error of its handler.
func (q *queryService) run(ctx context.Context, query admission.Query, right access.Right, run func(context.Context) error) error {
	query.Dialect, query.User, query.Database = "grpc", access.Of(ctx).Name(), access.Canonical(query.Database)
	if err := access.Check(ctx, query.Database, right); err != nil {
		q.s.metrics.answered(err)
		return statusOf(err)
	}
	ctx, work := q.s.options.Processors.Begin(ctx, callOf(ctx).owner.Name())
	defer work.EndAll()
	running, entry, err := q.s.options.Admission.Begin(ctx, query)
	if err == nil {
		err = run(running)
		if cause := running.Err(); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		if cause := context.Cause(running); err != nil && errors.Is(cause, admission.ErrSignedOut) {
			err = fmt.Errorf("%w: %w", wire.ErrUnauthenticated, cause)
		}
		entry.End(err)
	}
	if busy := new(admission.BusyError); errors.As(err, &busy) {
		err = fmt.Errorf("%w: %w", series.ErrOverloaded, err)
	}
	q.s.metrics.answered(err)
	return statusOf(err)
}

// idleWhile returns a function that sends, which waits for the client, and does no work meanwhile.
func idleWhile[M any](ctx context.Context, send func(*M) error) func(*M) error {
	return func(m *M) error {
		processor.Of(ctx).Idle()
		return send(m)
	}
}

// source returns the source for one read.
func (q *queryService) source(f *tickmeshv1.Freshness, partial bool) (source scan.Source, missing func() []uint32) {
	const stalenessMaxMs = uint64(24 * time.Hour / time.Millisecond)
	r := scan.Consistency{StalenessMax: time.Duration(min(f.GetStalenessMaxMs(), stalenessMaxMs)) * time.Millisecond, Partial: partial}
	if q.s.options.WithConsistency == nil || r == (scan.Consistency{}) {
		return q.s.options.Source, func() []uint32 { return nil }
	}
	source, shards := q.s.options.WithConsistency(r)
	return source, func() []uint32 { return wire.FromShards(shards()) }
}

// sourceOf returns the source for one read of a snapshot, or, without a name, of what is there now.
func (q *queryService) sourceOf(snapshot string, f *tickmeshv1.Freshness, partial bool) (source scan.Source, missing func() []uint32, done func(), err error) {
	if snapshot == "" {
		source, missing = q.source(f, partial)
		return source, missing, func() {}, nil
	}
	if q.s.options.Snapshots == nil {
		return nil, nil, nil, errNoSnapshots
	}
	source, done, err = q.s.options.Snapshots.SnapshotOf(snapshot)
	return source, func() []uint32 { return nil }, done, err
}

var errNoSnapshots = fmt.Errorf("%w: this server makes no snapshots", wire.ErrRefused)

// TakeSnapshot takes a snapshot for a caller who may read the databases that it names.
func (q *queryService) TakeSnapshot(ctx context.Context, m *tickmeshv1.TakeSnapshotRequest) (*tickmeshv1.TakeSnapshotResponse, error) {
	if len(m.GetDatabases()) == 0 {
		return nil, statusOf(fmt.Errorf("%w: a snapshot of no database", wire.ErrInvalid))
	}
	for _, database := range m.GetDatabases() {
		if err := access.Check(ctx, access.Canonical(string(database)), access.Read); err != nil {
			return nil, statusOf(err)
		}
	}
	if q.s.options.Snapshots == nil {
		return nil, statusOf(errNoSnapshots)
	}
	// Nodes give each user a share of the snapshots. An address is no user: many may come from one.
	ctx, work := q.s.options.Processors.Begin(ctx, callOf(ctx).owner.Tenant)
	defer work.EndAll()
	name, err := q.s.options.Snapshots.TakeSnapshot(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	return &tickmeshv1.TakeSnapshotResponse{Snapshot: name}, nil
}

// EndSnapshot ends a snapshot. Who knows its name has been told it.
func (q *queryService) EndSnapshot(ctx context.Context, m *tickmeshv1.EndSnapshotRequest) (*tickmeshv1.EndSnapshotResponse, error) {
	if q.s.options.Snapshots == nil {
		return nil, statusOf(errNoSnapshots)
	}
	if err := q.s.options.Snapshots.EndSnapshot(ctx, m.GetSnapshot()); err != nil {
		return nil, statusOf(err)
	}
	return &tickmeshv1.EndSnapshotResponse{}, nil
}

// clamp returns the nearest time that samples may have.
func clamp(timeMs int64) int64 { return max(scan.TimeMsMin, min(timeMs, scan.TimeMsMax)) }

// A message of an answer is sent when it has so many samples, or names.
const (
	samplesPerMessage = 8 << 10
	chunksPerMessage  = 512
	namesPerMessage   = 1024
	nameBytes         = 256 << 10 // of series or names
)

// Scan streams samples or windows.
func (q *queryService) Scan(m *tickmeshv1.ScanRequest, stream grpc.ServerStreamingServer[tickmeshv1.ScanResponse]) error {
	return q.run(stream.Context(), queryOf("Scan", m.GetSelector()), access.Read, func(ctx context.Context) error {
		request, err := q.scanRequest(m)
		if err != nil {
			return err
		}
		q.s.auditBulkRead(ctx, request)
		source, missing, done, err := q.sourceOf(m.GetSnapshot(), m.GetFreshness(), m.GetAllowPartial())
		if err != nil {
			return err
		}
		defer done()
		a := &scanAnswer{send: idleWhile(ctx, stream.Send)}
		if err := source.Scan(ctx, request, a.visit); err != nil {
			return err
		}
		a.message.ShardsMissing, a.message.RawFromMs = missing(), q.rawFrom(&request.Selector)
		return a.end()
	})
}

// rawFrom returns since when all samples of what a selector picks are kept; nil: all are, or there are several metrics.
func (q *queryService) rawFrom(s *scan.Selector) *int64 {
	if q.s.options.RawFrom == nil || s.MetricAny {
		return nil
	}
	fromMs := q.s.options.RawFrom(access.Canonical(s.Database), s.Metric)
	if fromMs == math.MinInt64 {
		return nil
	}
	return &fromMs
}

func (q *queryService) scanRequest(m *tickmeshv1.ScanRequest) (*scan.Request, error) {
	request := &scan.Request{FromMs: clamp(m.GetFromMs()), ToMs: clamp(m.GetToMs()), Parallel: 1}
	var err error
	if request.Selector, err = selectorOf(m.GetSelector()); err != nil {
		return nil, err
	}
	if request.Windows, err = wire.ToWindows(m.GetWindows()); err != nil {
		return nil, err
	}
	if request.Limits, err = wire.ToLimits(m.GetLimits()); err != nil {
		return nil, err
	}
	return request, nil
}

// scanAnswer gathers chunks and sends them.
type scanAnswer struct {
	send    func(*tickmeshv1.ScanResponse) error
	message tickmeshv1.ScanResponse
	samples int
	bytes   int    // of series
	key     []byte // of the chunk before
	began   bool
}

func (a *scanAnswer) visit(_ int, c *scan.Chunk) error {
	for from := 0; from < len(c.Times); from += samplesPerMessage {
		part := chunkPart(c, from, min(from+samplesPerMessage, len(c.Times)))
		m := &tickmeshv1.SeriesChunk{Columns: &tickmeshv1.Columns{}}
		if !a.began || string(a.key) != string(c.Key) {
			a.key, a.began = append([]byte(nil), c.Key...), true // the message points into it
			var err error
			if m.Series, err = wire.FromKey(series.Key(a.key)); err != nil {
				return fmt.Errorf("%w: %w", wire.ErrInternal, err)
			}
			a.bytes += len(c.Key)
		}
		wire.SetColumns(m.GetColumns(), &part)
		a.message.Chunks = append(a.message.GetChunks(), m)
		a.samples += len(part.Times)
		if a.samples >= samplesPerMessage || a.bytes >= nameBytes || len(a.message.GetChunks()) >= chunksPerMessage {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *scanAnswer) flush() error {
	err := a.send(&tickmeshv1.ScanResponse{Chunks: a.message.GetChunks()})
	a.message.Chunks, a.samples, a.bytes = nil, 0, 0
	return err
}

func (a *scanAnswer) end() error {
	if len(a.message.GetChunks()) == 0 && len(a.message.GetShardsMissing()) == 0 && a.message.RawFromMs == nil {
		return nil
	}
	return a.send(&a.message)
}

// chunkPart returns a part of a chunk.
func chunkPart(c *scan.Chunk, from, to int) scan.Chunk {
	return scan.Chunk{
		Times: c.Times[from:to], Values: cut(c.Values, from, to), Count: cut(c.Count, from, to),
		Sum: cut(c.Sum, from, to), Min: cut(c.Min, from, to), Max: cut(c.Max, from, to),
		First: cut(c.First, from, to), Last: cut(c.Last, from, to), Digest: cut(c.Digest, from, to), Hidden: cut(c.Hidden, from, to),
	}
}

func cut[T any](column []T, from, to int) []T {
	if len(column) == 0 {
		return nil
	}
	return column[from:to]
}

// Delete hides samples.
func (q *queryService) Delete(ctx context.Context, m *tickmeshv1.DeleteRequest) (response *tickmeshv1.DeleteResponse, err error) {
	err = q.run(ctx, queryOf("Delete", m.GetSelector()), access.Admin, func(ctx context.Context) error {
		selector, err := selectorOf(m.GetSelector())
		if err != nil {
			return err
		}
		touched, err := q.s.options.Deleter.Delete(ctx, &selector, clamp(m.GetFromMs()), clamp(m.GetToMs()))
		response = &tickmeshv1.DeleteResponse{SeriesTouched: touched}
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}
