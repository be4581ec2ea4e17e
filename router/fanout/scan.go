package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Scan implements scan.Source. Nodes are asked all at once, and visitors take what
// has come series by series. A series that is larger than Limits.SeriesBytesHeld and
// whose node is lost in the middle is gone on with elsewhere: its later samples are
// then as of a later moment. SeriesMax bounds the series that match on each node, and
// all that are given; SamplesMax the samples that each node decodes, and all that are
// given, or read for values at steps; BytesMax the memory of each node's part, and half of it the router's.
//
// Values at steps are made by nodes, and here from the samples of nodes that send these: because
// they are fewer bytes, or because the node is of an older version. Such a series is given once
// it is there as a whole.
func (s *Source) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if request.Steps != nil {
		if err := request.Steps.Check(); err != nil {
			return err
		}
	}
	if request.FromMs > request.ToMs {
		return ctx.Err()
	}
	if request.Steps != nil && request.Steps.Fold != nil {
		return s.fold(ctx, request, visit)
	}
	parallel := max(1, request.Parallel)
	run := &scanRun{
		request: request, visit: visit, workers: make(chan int, parallel),
		selector: wire.FromSelector(&request.Selector), windows: wire.FromWindows(request.Windows), limits: wire.FromLimits(request.Limits),
		heldMax: s.cluster.options.Limits.SeriesBytesHeld,
	}
	if most := request.Limits.BytesMax; most > 0 {
		run.heldMax = min(run.heldMax, int(most/2)/max(parallel, s.cluster.options.Limits.ReadCallsMax))
	}
	for worker := range parallel {
		run.workers <- worker
	}
	run.cluster, run.source, run.parallel, run.ask = s.cluster, s, parallel, run.askNode
	err := run.run(ctx, request.Shards)
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// scanCall is one call of a scan. A node sends one series after the other, as it is
// asked not to read shards at once.
type scanCall struct {
	run    *scanRun
	group  *group
	worker int // visits now; noWorker: none is needed

	read  *shardRead // of the open series; nil: none is open
	id    uint32
	key   series.Key
	held  []*tickmeshv1.Columns // of the open series, not given yet
	bytes int                   // of held
	chunk scan.Chunk            // for visits

	evaluator *stepEvaluator // of samples of the open series; nil: none came where values at steps are wanted
}

func (r *scanRun) askNode(ctx context.Context, o *group) error {
	c := &scanCall{run: r, group: o, worker: noWorker}
	defer func() {
		c.drop()
		if c.evaluator != nil {
			c.evaluator.holds.Close()
		}
	}()
	of, snapshot := ofPart(ctx, r.source.partOf(o))
	stream, err := await(o.watchdog, func() (nodev1.NodeService_ScanClient, error) {
		return o.node.reads.Scan(of, &nodev1.ScanRequest{
			Selector: r.selector, Shards: fromOf(o.reads), FromMs: max(r.request.FromMs, scan.TimeMsMin), ToMs: min(r.request.ToMs, scan.TimeMsMax),
			Windows: r.windows, Steps: wire.FromSteps(r.request.Steps), Limits: r.limits, Freshness: r.source.freshness(), Parallel: 1, Snapshot: snapshot,
		})
	})
	if err != nil {
		return err
	}
	for {
		m, err := await(o.watchdog, stream.Recv)
		if err != nil {
			return err
		}
		if err := c.take(ctx, m); err != nil {
			r.fail(err)
			return err
		}
	}
}

// take passes what a message completes to the visitor. Its errors end the scan.
func (c *scanCall) take(ctx context.Context, m *nodev1.ScanResponse) error {
	if err := c.run.countRead(m); err != nil {
		return err
	}
	ends := m.GetEnds()
	for _, chunk := range m.GetChunks() {
		if c.read != nil && chunk.GetShard() != uint32(c.read.shard) {
			// The shard may have ended with an error. It is asked for again now: the
			// visitor that the next series needs may wait for the rest of this one.
			if at := slices.IndexFunc(ends, c.breaks); at >= 0 {
				if err := c.end(ends[at]); err != nil {
					return err
				}
				ends = slices.Concat(ends[:at], ends[at+1:])
			}
		}
		if err := c.add(ctx, chunk); err != nil {
			return err
		}
	}
	for _, e := range ends {
		if err := c.end(e); err != nil {
			return err
		}
	}
	if c.read == nil || c.read.partial != c.id {
		c.release()
	}
	return nil
}

// breaks reports whether an end is the early one of the open series' shard.
func (c *scanCall) breaks(e *nodev1.ShardEnd) bool {
	return e.GetShard() == uint32(c.read.shard) && e.GetError() != nil
}

// end takes the end of a shard.
func (c *scanCall) end(e *nodev1.ShardEnd) error {
	r, shardErr, err := c.group.findEnd(e)
	if err != nil {
		return err
	}
	if c.read == r {
		if shardErr == nil {
			return fmt.Errorf("%w: shard %d has ended within a series", wire.ErrInternal, r.shard)
		}
		c.drop()
	}
	if shardErr == nil && r.partial != 0 {
		return errGone(r)
	}
	c.run.end(c.group, r, shardErr)
	c.run.signal()
	return nil
}

// errGone: a series of which something was given is not there any more.
func errGone(r *shardRead) error {
	return fmt.Errorf("%w: a series of shard %d has changed while it was read", series.ErrUnavailable, r.shard)
}

// add takes a chunk.
func (c *scanCall) add(ctx context.Context, m *nodev1.Chunk) error {
	if c.read == nil {
		if err := c.open(m); err != nil {
			return err
		}
	} else if m.GetShard() != uint32(c.read.shard) || m.GetId() != c.id {
		return fmt.Errorf("%w: series %d of shard %d within series %d of shard %d", wire.ErrInternal, m.GetId(), m.GetShard(), c.id, c.read.shard)
	}
	if err := c.hold(ctx, m); err != nil {
		return err
	}
	if m.GetSeriesEnd() {
		if err := c.give(ctx); err != nil {
			return err
		}
		c.read.after, c.read.partial = c.id, 0
		c.run.progressed(c.read)
		c.close()
		return nil
	}
	if c.run.request.Steps == nil && (c.bytes > c.run.heldMax || c.read.partial == c.id) {
		return c.give(ctx)
	}
	return nil
}

// hold keeps what a chunk has until it is given.
func (c *scanCall) hold(ctx context.Context, m *nodev1.Chunk) error {
	n := len(m.GetColumns().GetTimeDeltasMs())
	if n == 0 {
		return nil
	}
	if c.run.request.Steps != nil {
		if !m.GetSteps() {
			return c.evaluate(ctx, m)
		}
		if len(c.held) > 0 || m.GetSeries() > 0 {
			return fmt.Errorf("%w: series %d of shard %d has more than one row", wire.ErrInternal, c.id, c.read.shard)
		}
	} else if m.GetSteps() {
		return fmt.Errorf("%w: values at steps that were not asked for", wire.ErrInternal)
	}
	c.held = append(c.held, m.GetColumns())
	c.bytes += columnBytes * n
	return nil
}

// evaluate takes samples of a series whose values at steps are wanted.
func (c *scanCall) evaluate(ctx context.Context, m *nodev1.Chunk) error {
	if c.evaluator == nil {
		c.evaluator = newStepEvaluator(ctx, c.run.request)
	}
	if !c.evaluator.open {
		c.evaluator.begin()
	}
	return c.evaluator.add(m.GetColumns())
}

// columnBytes is about what a sample or window takes in a message.
const columnBytes = 24

// open begins a series.
func (c *scanCall) open(m *nodev1.Chunk) error {
	r, err := c.group.find(m.GetShard())
	if err != nil {
		return err
	}
	if m.GetId() <= r.after || m.GetId() > uint32(series.IDMax) {
		return fmt.Errorf("%w: series %d of shard %d after %d", wire.ErrInternal, m.GetId(), r.shard, r.after)
	}
	if r.partial != 0 && r.partial != m.GetId() {
		return errGone(r)
	}
	key := series.Key(m.GetKey())
	if _, _, _, err := key.Parts(nil); err != nil {
		return fmt.Errorf("%w: series %d of shard %d: %w", wire.ErrInternal, m.GetId(), r.shard, err)
	}
	if r.partial != 0 {
		c.release()
		c.worker, r.worker = r.worker, noWorker
	}
	c.read, c.id, c.key = r, m.GetId(), key
	return nil
}

// close forgets the open series.
func (c *scanCall) close() {
	if c.evaluator != nil {
		c.evaluator.open = false
	}
	clear(c.held)
	c.read, c.key, c.held, c.bytes = nil, nil, c.held[:0], 0
}

// drop leaves an open series to another call. If something of it was given, the
// visitor waits for the rest.
func (c *scanCall) drop() {
	if c.read != nil && c.read.partial == c.id {
		c.read.worker, c.worker = c.worker, noWorker
	}
	c.close()
	c.release()
}

// noWorker is the number of no visitor.
const noWorker = -1

// release releases the visitor for other calls.
func (c *scanCall) release() {
	if c.worker != noWorker {
		c.run.workers <- c.worker
		c.worker = noWorker
	}
}

// give visits what is held of the open series.
func (c *scanCall) give(ctx context.Context) error {
	if c.evaluator != nil && c.evaluator.open {
		if len(c.held) > 0 {
			return fmt.Errorf("%w: series %d of shard %d has both samples and values at steps", wire.ErrInternal, c.id, c.read.shard)
		}
		var err error
		if c.chunk.Times, c.chunk.Values, err = c.evaluator.end(c.chunk.Times); err != nil {
			return err
		}
		return c.giveChunk(ctx)
	}
	for _, m := range c.held {
		if err := c.run.decode(&c.chunk, m); err != nil {
			return err
		}
		if err := c.giveChunk(ctx); err != nil {
			return err
		}
	}
	clear(c.held)
	c.held, c.bytes = c.held[:0], 0
	return nil
}

// decode sets a chunk to columns of a message.
func (r *scanRun) decode(c *scan.Chunk, m *tickmeshv1.Columns) error {
	var err error
	if r.request.Steps != nil {
		err = wire.SetStepChunk(c, m, r.request.Steps, 0, nil)
	} else if err = wire.SetChunk(c, m); err == nil {
		return r.complete(c)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrInternal, err)
	}
	return nil
}

// giveChunk visits c.chunk, without what was visited before.
func (c *scanCall) giveChunk(ctx context.Context) error {
	r := c.read
	if r.partial == c.id {
		skip(&c.chunk, r.givenTo)
	}
	n := len(c.chunk.Times)
	if n == 0 {
		return nil
	}
	if c.run.request.Steps != nil {
		n = 0 // countRead has counted
	}
	if err := c.run.count(n, r.partial != c.id); err != nil {
		return err
	}
	c.chunk.Key = c.key
	c.chunk.Ref = series.Ref{Shard: r.shard, ID: series.ID(c.id)}
	r.partial, r.givenTo = c.id, c.chunk.Times[len(c.chunk.Times)-1]
	return c.visit(ctx)
}

func (c *scanCall) visit(ctx context.Context) error {
	if c.worker == noWorker {
		select {
		case c.worker = <-c.run.workers:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := c.run.failed(); err != nil {
		return err // a visitor wants no more
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.run.visit(c.worker, &c.chunk)
}

// complete reports whether a chunk has the columns that were asked for.
func (r *scanRun) complete(c *scan.Chunk) error {
	n, missing := len(c.Times), false
	if w := r.request.Windows; w == nil {
		missing = len(c.Values) != n
	} else {
		for _, column := range [...]struct {
			asked  scan.Aggregate
			length int
		}{
			{scan.AggregateSum, len(c.Sum)}, {scan.AggregateCount, len(c.Count)}, {scan.AggregateMin, len(c.Min)},
			{scan.AggregateMax, len(c.Max)}, {scan.AggregateFirst, len(c.First)}, {scan.AggregateLast, len(c.Last)},
			{scan.AggregateDigest, len(c.Digest)}, {scan.AggregateHidden, len(c.Hidden)},
		} {
			missing = missing || w.Aggregates&column.asked != 0 && column.length != n
		}
	}
	if missing {
		return fmt.Errorf("%w: a chunk without a column that was asked for", wire.ErrInternal)
	}
	return nil
}

// skip leaves out what is not after a time.
func skip(c *scan.Chunk, timeMs int64) {
	n := 0
	for n < len(c.Times) && c.Times[n] <= timeMs {
		n++
	}
	c.Times = c.Times[n:]
	for _, column := range [...]*[]float64{&c.Values, &c.Sum, &c.Min, &c.Max, &c.First, &c.Last} {
		if *column != nil {
			*column = (*column)[n:]
		}
	}
	if c.Count != nil {
		c.Count = c.Count[n:]
	}
	if c.Digest != nil {
		c.Digest = c.Digest[n:]
	}
	if c.Hidden != nil {
		c.Hidden = c.Hidden[n:]
	}
}
