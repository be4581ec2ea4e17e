package fanout

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
)

const (
	attemptBytesMax = 4 << 20 // a node's parts of a frame go out in requests of about so much
	batchBytesMax   = transport.MessageBytesMax - wire.FrameBytesMax - wire.PartBytesMax
)

// Write implements ingest.Writer. The frame gets an id unless it has one; parts are
// written by the leaders of their shards, again and again until all are or the time
// is over. Errors: the kinds of api/series; series.ErrEra when the frame's ids may
// mean other series: then they have been forgotten, and the points have to be split
// again. After an error parts may have been written all the same.
func (c *Cluster) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	start := time.Now()
	outcome, err := c.write(ctx, frame, start)
	c.metrics.wrote(time.Since(start), err)
	return outcome, err
}

func (c *Cluster) write(ctx context.Context, frame *series.Frame, start time.Time) (series.Outcome, error) {
	if len(frame.Parts) == 0 {
		return series.Outcome{}, nil
	}
	v, err := c.viewNow(ctx)
	if err != nil {
		return series.Outcome{}, fmt.Errorf("%w: %w", series.ErrUnavailable, err)
	}
	deadline := start.Add(c.options.Limits.WriteTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	w := &call{cluster: c, frame: frame, id: frame.ID, deadline: deadline, wake: make(chan struct{}, 1)}
	bytes, err := w.prepare(v)
	if err != nil {
		return series.Outcome{}, err
	}
	release, err := c.admit(ctx, frame.Level, bytes, deadline)
	if err != nil {
		return series.Outcome{}, err
	}
	defer release()
	if w.id.IsZero() {
		session, id := c.sessions.take()
		defer c.sessions.give(session, id)
		w.id = id
	}
	defer w.end()
	return w.run(ctx)
}

// admit waits until a frame may be in flight. One of level all may wait long for a full voter that is
// away, so such frames never have more than half of the room, and do not wait long for that.
// Errors: series.ErrOverloaded.
func (c *Cluster) admit(ctx context.Context, level series.Level, bytes int64, deadline time.Time) (release func(), err error) {
	if level != series.LevelAll {
		return c.writes.acquire(ctx, bytes, deadline)
	}
	soon := time.Now().Add(c.options.Limits.ProbeAfter)
	if soon.After(deadline) {
		soon = deadline
	}
	leave, err := c.waiting.acquire(ctx, bytes, soon)
	if err != nil {
		return nil, fmt.Errorf("of level all: %w", err)
	}
	done, err := c.writes.acquire(ctx, bytes, deadline)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { done(); leave() }, nil
}

// part is what is known of one part of a frame.
type part struct {
	points      uint32
	definitions int
	era         uint32

	done      bool
	tries     int       // attempts after which it waited
	redirects int       // attempts after which it went to another node at once
	readOnly  int       // attempts that met a node whose disk takes no writes
	due       time.Time // of the next attempt
	current   *attempt  // nil: none that is still waited for
	err       error     // of the last attempt
}

// prepare looks into the parts and returns the frame's size.
func (w *call) prepare(v *view) (bytes int64, err error) {
	frame, resolver := w.frame, w.cluster.resolver
	w.parts, w.left = make([]part, len(frame.Parts)), len(frame.Parts)
	var r series.BatchReader
	for i := range frame.Parts {
		p, state := &frame.Parts[i], &w.parts[i]
		if int(p.Shard) >= len(v.rows) {
			return 0, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, p.Shard, len(v.rows))
		}
		if len(p.Batch) > batchBytesMax {
			return 0, fmt.Errorf("%w: shard %d has %d bytes, %d are the most", series.ErrBatch, p.Shard, len(p.Batch), batchBytesMax)
		}
		bytes += int64(len(p.Batch))
		for r.Reset(p.Batch); ; state.definitions++ {
			if _, ok := r.NextDefinition(); !ok {
				break
			}
		}
		if r.Err() != nil {
			return 0, r.Err()
		}
		state.points = uint32(min(r.Points(), math.MaxUint32))
		if state.era = p.Era; state.era == 0 && frame.Generation != 0 {
			var ok bool
			if state.era, ok = resolver.Era(p.Shard, frame.Generation); !ok {
				w.cluster.metrics.eras.Inc()
				return 0, fmt.Errorf("%w: shard %d", series.ErrEra, p.Shard)
			}
		}
	}
	return bytes, nil
}
