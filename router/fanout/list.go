package fanout

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// shardList gathers what comes of shards until each has ended: what came of one that
// fails is dropped, and asked for again.
type shardList[T any] struct {
	gather
	bytesMax  int64 // of bytesHeld; 0: Limits.ReadBytesMax
	bytesHeld atomic.Int64
	account   scan.Account // of the request
	// give takes the items of a shard that is complete; one call at a time, and none
	// after an error.
	give   func(items []T) error
	giving sync.Mutex
	ended  error // guarded by giving: what give has returned
}

func newShardList[T any](s *Source, give func([]T) error) *shardList[T] {
	l := &shardList[T]{give: give}
	l.cluster, l.source = s.cluster, s
	return l
}

// listCall is one call of a shardList.
type listCall[T any] struct {
	list  *shardList[T]
	group *group
	items map[uint16][]T
	bytes map[uint16]int64
	held  int64 // sum of bytes
	holds scan.Holding
}

func (l *shardList[T]) newCall(o *group) *listCall[T] {
	return &listCall[T]{list: l, group: o, items: map[uint16][]T{}, bytes: map[uint16]int64{}, holds: scan.Holding{Account: l.account}}
}

// add holds an item of a shard.
func (c *listCall[T]) add(shard uint32, item T, bytes int) error {
	r, err := c.group.find(shard)
	if err != nil {
		return err
	}
	most := cmp.Or(c.list.bytesMax, c.list.cluster.options.Limits.ReadBytesMax)
	if limited(c.list.bytesHeld.Add(int64(bytes)), most) {
		return &scan.LimitError{What: "bytes", Limit: most}
	}
	c.bytes[r.shard] += int64(bytes)
	c.items[r.shard] = append(c.items[r.shard], item)
	c.held += int64(bytes)
	return c.holds.Hold(c.held)
}

// end emits what is held of shards that are complete.
func (c *listCall[T]) end(ends []*nodev1.ShardEnd) error {
	for _, e := range ends {
		r, shardErr, err := c.group.findEnd(e)
		if err != nil {
			return err
		}
		items := c.items[r.shard]
		delete(c.items, r.shard)
		if shardErr == nil && len(items) > 0 {
			if err := c.list.handOver(items); err != nil {
				return err
			}
		}
		c.list.bytesHeld.Add(-c.bytes[r.shard])
		c.held -= c.bytes[r.shard]
		delete(c.bytes, r.shard)
		if err := c.holds.Hold(c.held); err != nil {
			return err
		}
		c.list.end(c.group, r, shardErr)
	}
	return nil
}

func (l *shardList[T]) handOver(items []T) error {
	l.giving.Lock()
	defer l.giving.Unlock()
	if l.ended == nil {
		l.ended = l.give(items)
	}
	return l.ended
}

// drop forgets what is held of shards that have not ended.
func (c *listCall[T]) drop() {
	c.list.bytesHeld.Add(-c.held)
	c.holds.Close()
}

// receive takes a stream's messages until it ends. Errors of take end the read.
func receive[M, T any](c *listCall[T], recv func() (*M, error), take func(*M) error) error {
	defer c.drop()
	for {
		m, err := await(c.group.watchdog, recv)
		if err != nil {
			return err
		}
		if err := take(m); err != nil {
			c.list.fail(err)
			return err
		}
	}
}

// Last implements scan.Source. For SeriesMax the series that match are counted first,
// on all nodes.
func (s *Source) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	if limits.SeriesMax > 0 {
		matching, err := s.Series(ctx, selector, 1, func(series.Key) error { return nil })
		if err != nil {
			return err
		}
		if limited(matching, limits.SeriesMax) {
			return &scan.LimitError{What: "series", Limit: limits.SeriesMax}
		}
	}
	l := newShardList(s, func(points []*nodev1.LastPoint) error {
		for _, p := range points {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(scan.Point{Key: p.GetKey(), Sample: series.Sample{TimeMs: p.GetTimeMs(), Value: p.GetValue()}}); err != nil {
				return err
			}
		}
		return nil
	})
	l.account = limits.Account
	l.ask = func(ctx context.Context, o *group) error {
		stream, err := await(o.watchdog, func() (nodev1.NodeService_LastClient, error) {
			return o.node.reads.Last(ctx, &nodev1.LastRequest{
				Selector: wire.FromSelector(selector), Shards: shardsOf(o.reads), FromMs: min(max(fromMs, scan.TimeMsMin), scan.TimeMsMax),
				Limits: wire.FromLimits(limits), Freshness: s.freshness(),
			})
		})
		if err != nil {
			return err
		}
		c := l.newCall(o)
		return receive(c, stream.Recv, func(m *nodev1.LastResponse) error {
			for _, p := range m.GetPoints() {
				if err := c.add(p.GetShard(), p, len(p.GetKey())+itemBytes); err != nil {
					return err
				}
			}
			return c.end(m.GetEnds())
		})
	}
	return unlessStopped(l.run(ctx, selector.Shards))
}

// itemBytes is about what an item takes besides its bytes.
const itemBytes = 64

func unlessStopped(err error) error {
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// Series implements scan.Source.
func (s *Source) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	return s.series(ctx, &nodev1.ListSeriesRequest{}, selector, limit, visit)
}

// series lists series; the request says of which time.
func (s *Source) series(ctx context.Context, of *nodev1.ListSeriesRequest, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	total, visited, stopped := int64(0), 0, false
	l := newShardList(s, func(lists []*nodev1.ShardKeys) error {
		for _, list := range lists {
			total += list.GetTotal()
			for _, key := range list.GetKeys() {
				if stopped || limit > 0 && visited == limit {
					break
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				visited++
				err := visit(key)
				if stopped = errors.Is(err, scan.ErrStopped); err != nil && !stopped {
					return err
				}
			}
		}
		return nil
	})
	l.ask = func(ctx context.Context, o *group) error {
		stream, err := await(o.watchdog, func() (nodev1.NodeService_ListSeriesClient, error) {
			return o.node.reads.ListSeries(ctx, &nodev1.ListSeriesRequest{
				Selector: wire.FromSelector(selector), Shards: shardsOf(o.reads), Limit: limitOf(limit), Freshness: s.freshness(),
				FromMs: of.GetFromMs(), ToMs: of.GetToMs(),
			})
		})
		if err != nil {
			return err
		}
		c := l.newCall(o)
		return receive(c, stream.Recv, func(m *nodev1.ListSeriesResponse) error {
			for _, list := range m.GetKeys() {
				bytes := itemBytes
				for _, key := range list.GetKeys() {
					bytes += len(key) + itemBytes
				}
				if err := c.add(list.GetShard(), list, bytes); err != nil {
					return err
				}
			}
			return c.end(m.GetEnds())
		})
	}
	if err := l.run(ctx, selector.Shards); err != nil {
		return 0, err
	}
	return total, nil
}

func limitOf(limit int) uint32 { return uint32(min(max(limit, 0), math.MaxUint32)) }

func limited(n, most int64) bool { return most > 0 && n > most }
