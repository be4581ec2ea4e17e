package fanout

import (
	"context"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// fold is Scan for rows of groups. What came of a shard is held until it has ended, as the
// rows of another node may be of other series.
func (s *Source) fold(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	total := scanRun{request: request}
	l := newShardList(s, func(rows []*scan.Chunk) error {
		for _, row := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if limited(total.seriesGiven.Add(max(1, row.Series)), request.Limits.SeriesMax) {
				return &scan.LimitError{What: "series", Limit: request.Limits.SeriesMax}
			}
			if err := visit(0, row); err != nil {
				return err
			}
		}
		return nil
	})
	l.parallel, l.account = max(1, request.Parallel), request.Limits.Account
	if most := request.Limits.BytesMax; most > 0 {
		l.bytesMax = min(s.cluster.options.Limits.ReadBytesMax, max(1, most/2))
	}
	l.ask = func(ctx context.Context, o *group) error {
		of, snapshot := ofPart(ctx, s.partOf(o))
		stream, err := await(o.watchdog, func() (nodev1.NodeService_ScanClient, error) {
			return o.node.reads.Scan(of, &nodev1.ScanRequest{
				Selector: wire.FromSelector(&request.Selector), Shards: fromOf(o.reads), FromMs: max(request.FromMs, scan.TimeMsMin), ToMs: min(request.ToMs, scan.TimeMsMax),
				Steps: wire.FromSteps(request.Steps), Limits: wire.FromLimits(request.Limits), Freshness: s.freshness(), Parallel: 1, Snapshot: snapshot,
			})
		})
		if err != nil {
			return err
		}
		c := newFoldCall(ctx, l, o, request)
		defer c.evaluator.holds.Close()
		return receive(c.listCall, stream.Recv, func(m *nodev1.ScanResponse) error {
			if err := total.countRead(m); err != nil {
				return err
			}
			return c.take(m)
		})
	}
	return unlessStopped(l.run(ctx, request.Shards))
}

// foldCall is one call of a fold. A node sends one series after the other.
type foldCall struct {
	*listCall[*scan.Chunk]
	request *scan.Request

	// Of nodes that send samples.
	evaluator *stepEvaluator
	shard, id uint32 // of the open series; id 0: none is open
	key       series.Key
	folder    *steps.Folder
	folded    uint32 // the shard whose groups the folder has
}

func newFoldCall(ctx context.Context, l *shardList[*scan.Chunk], o *group, request *scan.Request) *foldCall {
	return &foldCall{listCall: l.newCall(o), request: request, evaluator: newStepEvaluator(ctx, request), folder: steps.NewFolder(request.Steps)}
}

// take takes a message. Its errors end the scan.
func (c *foldCall) take(m *nodev1.ScanResponse) error {
	ends := m.GetEnds()
	for _, chunk := range m.GetChunks() {
		if c.id != 0 && chunk.GetShard() != c.shard {
			// The open series may be one of a shard that has ended early.
			at := slices.IndexFunc(ends, func(e *nodev1.ShardEnd) bool { return e.GetShard() == c.shard && e.GetError() != nil })
			if at >= 0 {
				if err := c.endShard(ends[at]); err != nil {
					return err
				}
				ends = slices.Concat(ends[:at], ends[at+1:])
			}
		}
		if err := c.addChunk(chunk); err != nil {
			return err
		}
	}
	for _, e := range ends {
		if err := c.endShard(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *foldCall) addChunk(m *nodev1.Chunk) error {
	switch {
	case !m.GetSteps():
		return c.addSamples(m)
	case c.id != 0:
		return fmt.Errorf("%w: a row within series %d of shard %d", wire.ErrInternal, c.id, c.shard)
	}
	row := &scan.Chunk{}
	if err := wire.SetStepChunk(row, m.GetColumns(), c.request.Steps, m.GetSeries(), m.GetSums()); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrInternal, err)
	}
	if row.Series > 0 || len(row.Times) == 0 {
		return c.addRow(m.GetShard(), m.GetKey(), row)
	}
	if _, err := c.group.find(m.GetShard()); err != nil {
		return err
	}
	return c.addSeries(m.GetShard(), m.GetKey(), row.Times, row.Values)
}

// addRow holds a row, which is the call's from now on.
func (c *foldCall) addRow(shard uint32, key series.Key, row *scan.Chunk) error {
	if len(row.Times) == 0 {
		return nil
	}
	if _, _, _, err := key.Parts(nil); err != nil {
		return fmt.Errorf("%w: a row of shard %d: %w", wire.ErrInternal, shard, err)
	}
	row.Key = key
	bytes := len(key) + columnBytes*len(row.Times) + rowBytes
	for i := range row.Sums {
		bytes += row.Sums[i].Bytes()
	}
	return c.add(shard, row, bytes)
}

// rowBytes is about what a row takes beside its key and its columns.
const rowBytes = 320

// addSamples takes samples of a node that does not fold.
func (c *foldCall) addSamples(m *nodev1.Chunk) error {
	if c.id == 0 {
		if len(m.GetKey()) == 0 && m.GetSeriesEnd() && len(m.GetColumns().GetTimeDeltasMs()) == 0 {
			return nil // the end of a row
		}
		if _, err := c.group.find(m.GetShard()); err != nil {
			return err
		}
		c.shard, c.id, c.key = m.GetShard(), m.GetId(), m.GetKey()
		if _, _, _, err := c.key.Parts(nil); err != nil || c.id == 0 {
			return fmt.Errorf("%w: series %d of shard %d has no key", wire.ErrInternal, c.id, c.shard)
		}
		c.evaluator.begin()
	} else if m.GetShard() != c.shard || m.GetId() != c.id {
		return fmt.Errorf("%w: series %d of shard %d within series %d of shard %d", wire.ErrInternal, m.GetId(), m.GetShard(), c.id, c.shard)
	}
	if err := c.evaluator.add(m.GetColumns()); err != nil || !m.GetSeriesEnd() {
		return err
	}
	c.id = 0
	times, values, err := c.evaluator.end(nil)
	if err != nil || len(times) == 0 {
		return err
	}
	return c.addSeries(c.shard, c.key, times, values)
}

// addSeries folds the values at steps of a series of a node that does not fold, or not as it was asked to. One that
// is visited by itself is held as it is.
func (c *foldCall) addSeries(shard uint32, key series.Key, times []int64, values []float64) error {
	if c.folded != shard {
		if err := c.flush(); err != nil {
			return err
		}
		c.folded = shard
	}
	if ok, err := c.folder.Add(key, times, values); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrInternal, err)
	} else if !ok {
		return c.addRow(shard, key, &scan.Chunk{Times: times, Values: slices.Clone(values)})
	}
	if c.folder.Bytes() < foldedBytesMax {
		return nil
	}
	return c.flush()
}

// foldedBytesMax is how much the groups of one shard take until their rows are held instead, which
// are counted.
const foldedBytesMax = 256 << 10

// flush holds the rows of what was folded here.
func (c *foldCall) flush() error {
	return c.folder.Visit(series.Ref{}, func(row *scan.Chunk) error {
		return c.addRow(c.folded, slices.Clone(row.Key), &scan.Chunk{
			Times: slices.Clone(row.Times), Values: slices.Clone(row.Values), Count: slices.Clone(row.Count), Sums: slices.Clone(row.Sums), Series: row.Series,
		})
	})
}

// endShard emits what is held of a shard, if it is complete.
func (c *foldCall) endShard(e *nodev1.ShardEnd) error {
	shard, whole := e.GetShard(), e.GetError() == nil
	if c.id != 0 && c.shard == shard {
		if whole {
			return fmt.Errorf("%w: shard %d has ended within a series", wire.ErrInternal, c.shard)
		}
		c.id = 0
	}
	if c.folded == shard {
		if !whole {
			c.folder.Forget()
		} else if err := c.flush(); err != nil {
			return err
		}
	}
	return c.end([]*nodev1.ShardEnd{e})
}
