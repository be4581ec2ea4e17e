package storage

import (
	"context"
	"fmt"
	"io"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// ExportRange writes what a shard has in [fromMs, toMs], both inclusive, as a scan sees
// it: checked, merged, and without what is deleted. It has every entry up to indexMin at
// least. Errors: those of a scan and of the writer; series.ErrUnavailable when there is
// no replica, or it is not so far.
func (e *Engine) ExportRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error {
	ctx, leave, err := e.readers.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if int(shard) >= len(e.shards) {
		return fmt.Errorf("%w: shard %d of %d", series.ErrUnavailable, shard, len(e.shards))
	}
	w := &rangeWriter{w: to}
	s := e.shards[shard]
	s.mu.Lock()
	w.end.Index = s.mu.applied
	ready := !s.absent.Load() && s.mu.doubtful == noDoubt && len(s.mu.backlog) == 0 && s.mu.applied >= indexMin
	s.mu.Unlock()
	if !ready {
		return fmt.Errorf("%w: shard %d is not known up to entry %d", series.ErrUnavailable, shard, indexMin)
	}
	header := rangeHeader{Format: rangeFormat, Shards: len(e.shards), Shard: shard, FromMs: fromMs, ToMs: toMs}
	if err := w.sendJSON(frameRangeHeader, header); err != nil {
		return err
	}
	if err := e.exportSamples(ctx, &header, w); err != nil {
		return err
	}
	s.mu.Lock()
	w.end.Through = s.mu.applied
	s.mu.Unlock()
	return w.sendJSON(frameRangeEnd, &w.end)
}

func (e *Engine) exportSamples(ctx context.Context, h *rangeHeader, w *rangeWriter) error {
	r := e.NewReader(0)
	defer r.Close()
	if err := e.Lacks(r.Version, h.Shard, segment.TimeRange{FromMs: h.FromMs, ToMs: h.ToMs}); err != nil {
		return err
	}
	for id := range series.ID(e.index.ShardSeries(h.Shard)) {
		before := w.end.Samples
		err := r.Read(series.Ref{Shard: h.Shard, ID: id}, h.FromMs, h.ToMs, func(times []int64, values []float64) error {
			return w.add(uint32(id), times, values)
		})
		if err == nil {
			err = w.endBlock(uint32(id))
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if w.end.Samples > before {
			w.end.Series++
		}
	}
	return w.flush()
}
