package transfer

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
func (m *Mover) ExportRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error {
	ctx, leave, err := m.enter(ctx, shard, series.ErrUnavailable)
	if err != nil {
		return err
	}
	defer leave()
	w := &rangeWriter{w: to}
	s := m.o.Shards[shard]
	w.end.Index = s.Applied()
	if s.Exact() != nil || w.end.Index < indexMin {
		return fmt.Errorf("%w: shard %d is not known up to entry %d", series.ErrUnavailable, shard, indexMin)
	}
	header := rangeHeader{Format: rangeFormat, Shards: len(m.o.Shards), Shard: shard, FromMs: fromMs, ToMs: toMs}
	if err := w.sendJSON(frameRangeHeader, header); err != nil {
		return err
	}
	if err := m.exportSamples(ctx, &header, w); err != nil {
		return err
	}
	w.end.Through = s.Applied()
	return w.sendJSON(frameRangeEnd, &w.end)
}

func (m *Mover) exportSamples(ctx context.Context, h *rangeHeader, w *rangeWriter) error {
	r := m.o.Source.NewReader(0)
	defer r.Close()
	if err := m.o.Source.Lacks(r.Version, h.Shard, segment.TimeRange{FromMs: h.FromMs, ToMs: h.ToMs}); err != nil {
		return err
	}
	gone := m.o.Shards[h.Shard].Forgotten()
	for id := range series.ID(m.o.Index.ShardSeries(h.Shard)) {
		if gone.Has(uint32(id)) {
			continue
		}
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
