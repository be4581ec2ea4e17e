package scripts

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/query/promql"
	"github.com/tickmesh/tickmesh/router/split"
)

// backend is a node in memory with the front half of a router.
type backend struct {
	node     *node.Node
	splitter *split.Splitter
	batch    parse.Batch
}

const shards = 4

func newBackend(t testing.TB) *backend {
	t.Helper()
	n, err := node.Open(node.Options{
		FS: vfs.NewMemFS(), DataDir: "data", Shards: shards, Sync: node.SyncOff, LogFileBytes: 1 << 20, ExtentBytes: 64 << 10,
		GenerationBytesMax: 4 << 20, CheckpointBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := split.New(split.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return &backend{node: n, splitter: s}
}

// write sends a remote write through parser, splitter and log.
func (b *backend) write(ctx context.Context, request *prompb.WriteRequest) error {
	body, err := request.Marshal()
	if err != nil {
		return err
	}
	if err := parse.RemoteWrite(&b.batch, body, parse.RemoteWrite1, parse.Limits{}); err != nil {
		return err
	}
	if b.batch.ErrorsTotal > 0 {
		return errors.New(string(b.batch.Errors[0].AppendTo(nil)))
	}
	frame := b.splitter.Split(&b.batch, nil, b.node, 0)
	if b.batch.ErrorsTotal > 0 {
		return errors.New(string(b.batch.Errors[0].AppendTo(nil)))
	}
	_, err = b.node.Write(ctx, frame)
	return err
}

// counts describes what a script made of the two storages.
type counts struct{ ours, beside, lines int }

// store is a storage.Storage: samples of floats go to a backend; what no float is, or has a
// start time, which we do not store, to Prometheus' own storage beside it.
type store struct {
	*backend
	beside storage.Storage
	counts *counts
	used   bool // beside has samples
}

func (s *store) Close() error {
	return errors.Join(s.node.Close(), s.beside.Close())
}

func (s *store) StartTime() (int64, error) { return math.MinInt64, nil }

func (s *store) Appender(context.Context) storage.Appender { return nil }

func (s *store) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	return nil, errors.New("no chunks here")
}

func (s *store) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return &appender{store: s, ctx: ctx, beside: s.beside.AppenderV2(ctx)}
}

// Querier reads without a plan.
func (s *store) Querier(fromMs, toMs int64) (storage.Querier, error) {
	return s.querier(promql.Selection{Source: s.node}, fromMs, toMs)
}

func (s *store) querier(selection promql.Selection, fromMs, toMs int64) (storage.Querier, error) {
	ours, err := selection.Queryable().Querier(fromMs, toMs)
	if err != nil || !s.used {
		return ours, err
	}
	theirs, err := s.beside.Querier(fromMs, toMs)
	if err != nil {
		return nil, err
	}
	return storage.NewMergeQuerier([]storage.Querier{ours, theirs}, nil, storage.ChainedSeriesMerge), nil
}

// planned reads by the plan of an expression.
type planned struct {
	*store
	selection promql.Selection
}

func (p planned) Querier(fromMs, toMs int64) (storage.Querier, error) {
	return p.querier(p.selection, fromMs, toMs)
}

// engine attaches the plan of its expression to each query, as the handler does.
type engine struct {
	*prom.Engine
	parser   parser.Parser
	lookback time.Duration
}

func (e engine) plan(q storage.Queryable, opts prom.QueryOpts, text string) storage.Queryable {
	s, ok := q.(*store)
	expr, err := e.parser.ParseExpr(text)
	if !ok || err != nil {
		return q
	}
	s.counts.lines++
	lookback := e.lookback
	if opts != nil && opts.LookbackDelta() > 0 {
		lookback = opts.LookbackDelta()
	}
	return planned{s, promql.Selection{Source: s.node, Expr: expr, Lookback: lookback, Parallel: 3}}
}

func (e engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts prom.QueryOpts, text string, at time.Time) (prom.Query, error) {
	return e.Engine.NewInstantQuery(ctx, e.plan(q, opts, text), opts, text, at)
}

func (e engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts prom.QueryOpts, text string, start, end time.Time, step time.Duration) (prom.Query, error) {
	return e.Engine.NewRangeQuery(ctx, e.plan(q, opts, text), opts, text, start, end, step)
}

// appender gathers floats until they are committed.
type appender struct {
	*store
	ctx     context.Context
	beside  storage.AppenderV2
	request prompb.WriteRequest
}

func (a *appender) Append(ref storage.SeriesRef, l labels.Labels, startMs, timeMs int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, opts storage.AppendV2Options) (storage.SeriesRef, error) {
	if h != nil || fh != nil || startMs != 0 {
		a.used = true
		a.counts.beside++
		return a.beside.Append(ref, l, startMs, timeMs, v, h, fh, opts)
	}
	a.counts.ours++
	a.request.Timeseries = append(a.request.Timeseries, prompb.TimeSeries{
		Labels: prompb.FromLabels(l, nil), Samples: []prompb.Sample{{Timestamp: timeMs, Value: v}},
	})
	return 0, nil
}

func (a *appender) AppendExemplars(storage.SeriesRef, labels.Labels, []exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, nil
}

func (a *appender) Commit() error {
	return errors.Join(a.write(a.ctx, &a.request), a.beside.Commit())
}

func (a *appender) Rollback() error { return a.beside.Rollback() }
