package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// lives are the counts of shards' replicas before they were confirmed. A replica may end
// between that and the reading, which then finds an empty shard, or one that is being
// filled, and no error.
type lives map[uint16]uint64

func (s *Service) livesOf(shards []uint16) lives {
	l := lives{}
	for _, shard := range shards {
		if int(shard) < s.node.Shards() {
			l[shard] = s.node.Lives(shard)
		}
	}
	return l
}

// check returns err, or if it is nil an error if the shard's replica was replaced while it was read. A nil l is of a
// snapshot.
func (l lives) check(s *Service, shard uint16, err error) error {
	if l == nil {
		return ofDamage(err)
	}
	if err == nil && l[shard] != s.node.Lives(shard) {
		return fmt.Errorf("%w: the replica of shard %d was replaced while it was read", series.ErrUnavailable, shard)
	}
	if err != nil && s.node.HasCopies(shard) {
		return ofDamage(err) // the shard is handed over, so the reader asks again
	}
	return err
}

// confirm returns the shards that may be read, and calls end for the others with the reason.
func (s *Service) confirm(ctx context.Context, shards []uint16, fresh rpc.Freshness, end func(shard uint16, err error) error) (good []uint16, err error) {
	for i, err := range s.node.Confirm(ctx, shards, fresh.StalenessMaxMs) {
		if err == nil {
			good = append(good, shards[i])
		} else if err := end(shards[i], ofShard(shards[i], err)); err != nil {
			return nil, err
		}
	}
	return good, nil
}

// ofRequest reports whether an error is of the request, whatever the shard.
func ofRequest(ctx context.Context, err error) bool {
	var limit *scan.LimitError
	return errors.As(err, &limit) || ctx.Err() != nil || errors.Is(err, wire.ErrInvalid)
}

// Scan implements rpc.Node. The shards are spread over workers, each of which goes
// through its own in order.
func (s *Service) Scan(ctx context.Context, request *rpc.ScanRequest, sink rpc.ScanSink) error {
	shards := request.Selector.Shards
	c, err := s.contentsOf(ctx, request.Snapshot, shards, request.Freshness, sink.ShardEnd)
	if err != nil || len(c.good) == 0 {
		return err
	}
	defer c.done()
	after := map[uint16]series.ID{}
	for i, id := range request.AfterIDs {
		after[shards[i]] = id
	}
	workers := min(max(request.Parallel, 1), runtime.GOMAXPROCS(0), len(c.good))
	failures := make([]error, workers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for i := range workers {
		part := c.good[i*len(c.good)/workers : (i+1)*len(c.good)/workers]
		group.Go(func() {
			if failures[i] = s.scanShards(ctx, request, &c, part, after, sink); failures[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return firstCause(failures)
}

// firstCause prefers an error to the cancellations that followed from it.
func firstCause(errs []error) (first error) {
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// scanShards sends the chunks of some shards in order.
func (s *Service) scanShards(ctx context.Context, request *rpc.ScanRequest, c *contents, shards []uint16, after map[uint16]series.ID, sink rpc.ScanSink) error {
	one := request.Request
	one.Shards, one.Parallel = shards, 1
	a := &shardAnswer{service: s, sink: sink, left: shards, after: after, before: c.before}
	var err error
	if one.Steps == nil {
		err = c.Scan(ctx, &one, a.samples)
	} else {
		a.folded = one.Steps.Fold != nil
		err = steps.ScanShort(ctx, c, &one, a.steps, a.samples)
	}
	if err != nil && ofRequest(ctx, err) {
		return err
	}
	return a.end(len(a.left), err)
}

// shardAnswer is the answer of a scan for some shards. Outside, ids start at 1, so that 0 can stand
// for none.
type shardAnswer struct {
	service *Service
	sink    rpc.ScanSink
	left    []uint16 // shards that have not ended, in order
	after   map[uint16]series.ID
	before  lives
	folded  bool
	rows    series.ID // of the first shard that is left
}

// samples implements scan.Visitor for samples and windows.
func (a *shardAnswer) samples(_ int, chunk *scan.Chunk) error { return a.give(chunk, a.sink.Chunk) }

// steps implements scan.Visitor for values at steps and rows.
func (a *shardAnswer) steps(_ int, chunk *scan.Chunk) error { return a.give(chunk, a.sink.Steps) }

func (a *shardAnswer) give(chunk *scan.Chunk, send func(*scan.Chunk) error) error {
	before := 0
	for before < len(a.left) && a.left[before] < chunk.Ref.Shard {
		before++
	}
	if err := a.end(before, nil); err != nil {
		return err
	}
	out := *chunk
	if a.folded {
		a.rows++
		out.Ref.ID = a.rows
	} else {
		out.Ref.ID++
	}
	if out.Ref.ID <= a.after[chunk.Ref.Shard] {
		return nil
	}
	return send(&out)
}

// end ends the first shards of those that are left.
func (a *shardAnswer) end(shards int, err error) error {
	for range shards {
		shard := a.left[0]
		a.left, a.rows = a.left[1:], 0
		if err := a.sink.ShardEnd(shard, a.before.check(a.service, shard, err)); err != nil {
			return err
		}
	}
	return nil
}

// Last implements rpc.Node.
func (s *Service) Last(ctx context.Context, request *rpc.LastRequest, sink rpc.LastSink) error {
	before := s.livesOf(request.Selector.Shards)
	good, err := s.confirm(ctx, request.Selector.Shards, request.Freshness, sink.ShardEnd)
	if err != nil || len(good) == 0 {
		return err
	}
	selector := request.Selector
	selector.Shards = good
	sharding := s.node.Sharding()
	err = s.node.Last(ctx, &selector, request.FromMs, request.Limits, func(p scan.Point) error {
		return sink.Point(sharding.Of(p.Key), p)
	})
	if err != nil && ofRequest(ctx, err) {
		return err
	}
	return endAll(good, err, func(shard uint16, err error) error { return sink.ShardEnd(shard, before.check(s, shard, err)) })
}

func endAll(shards []uint16, err error, end func(uint16, error) error) error {
	for _, shard := range shards {
		if err := end(shard, err); err != nil {
			return err
		}
	}
	return nil
}

// ListSeries implements rpc.Node.
func (s *Service) ListSeries(ctx context.Context, request *rpc.SeriesRequest, sink rpc.SeriesSink) error {
	end := func(shard uint16, err error) error { return sink.ShardEnd(shard, 0, err) }
	before := s.livesOf(request.Selector.Shards)
	good, err := s.confirm(ctx, request.Selector.Shards, request.Freshness, end)
	if err != nil {
		return err
	}
	selector := request.Selector
	for i, shard := range good {
		selector.Shards = good[i : i+1]
		total, err := s.node.SeriesBetween(ctx, &selector, request.FromMs, request.ToMs, request.Limit, func(key series.Key) error { return sink.Key(shard, key) })
		if err != nil && ofRequest(ctx, err) {
			return err
		}
		if err := sink.ShardEnd(shard, total, before.check(s, shard, err)); err != nil {
			return err
		}
	}
	return nil
}

// ListNames implements rpc.Node.
func (s *Service) ListNames(ctx context.Context, request *rpc.NamesRequest) (names []string, ends []rpc.ShardEnd, err error) {
	c, err := s.contentsOf(ctx, request.Snapshot, request.Shards, request.Freshness, func(shard uint16, err error) error {
		ends = append(ends, rpc.ShardEnd{Shard: shard, Err: err})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	defer c.done()
	of := c.NamesOf(slices.Concat([]uint16{}, c.good)).Between(request.FromMs, request.ToMs) // none of them is none, not all
	switch r := request; r.Kind {
	case tickmeshv1.NameKind_NAME_KIND_DATABASE:
		names, err = of.Databases(ctx)
	case tickmeshv1.NameKind_NAME_KIND_METRIC:
		names, err = of.Metrics(ctx, r.Database, r.StartWith, r.Limit)
	case tickmeshv1.NameKind_NAME_KIND_TAG_NAME:
		names, err = of.TagNames(ctx, r.Database, r.Metric, r.StartWith, r.Limit)
	case tickmeshv1.NameKind_NAME_KIND_TAG_VALUE:
		names, err = of.TagValues(ctx, r.Database, r.Metric, r.Tag, r.StartWith, r.Limit)
	default:
		err = fmt.Errorf("%w: names of kind %s", wire.ErrInvalid, r.Kind)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, shard := range c.good {
		ends = append(ends, rpc.ShardEnd{Shard: shard, Err: c.before.check(s, shard, nil)})
	}
	slices.SortFunc(ends, func(a, b rpc.ShardEnd) int { return cmp.Compare(a.Shard, b.Shard) })
	return names, ends, nil
}

// History implements rpc.Node.
func (s *Service) History(ctx context.Context, since []scan.Mark) (changes []scan.Change, ends []rpc.ShardEnd, err error) {
	shards := make([]uint16, len(since))
	for i, m := range since {
		shards[i] = m.Shard
	}
	before := s.livesOf(shards)
	_, err = s.confirm(ctx, shards, rpc.Freshness{}, func(shard uint16, err error) error {
		ends = append(ends, rpc.ShardEnd{Shard: shard, Err: err})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	refused := ends
	ends = nil
	for _, m := range since {
		end := rpc.ShardEnd{Shard: m.Shard}
		if len(refused) > 0 && refused[0].Shard == m.Shard {
			end, refused = refused[0], refused[1:]
		} else {
			change := s.node.ChangesSince(m)
			if end.Err = before.check(s, m.Shard, nil); end.Err == nil {
				changes = append(changes, change)
			}
		}
		ends = append(ends, end)
	}
	return changes, ends, nil
}

// Delete implements rpc.Node.
func (s *Service) Delete(ctx context.Context, request *rpc.DeleteRequest) ([]rpc.ShardDeleted, error) {
	outcomes, err := s.node.DeleteParts(ctx, request.ID, &request.Selector, request.FromMs, request.ToMs)
	out := make([]rpc.ShardDeleted, len(request.Selector.Shards))
	for i, shard := range request.Selector.Shards {
		out[i] = rpc.ShardDeleted{ShardEnd: rpc.ShardEnd{Shard: shard, Err: err}}
		if err == nil {
			out[i].Err, out[i].SeriesTouched = ofShard(shard, outcomes[i].Err), outcomes[i].SeriesTouched
		}
	}
	return out, nil
}
