package read

import (
	"cmp"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// rollupPlan describes how windows, or the ends of hours or days, are made of rollups. The zero value makes none of any.
type rollupPlan struct {
	widthMs  int64 // of the rollups: segment.HourMs or segment.DayMs; 0: none are used
	sums     bool  // sums are wanted
	ends     bool  // first and last values are wanted
	digests  bool  // of days
	recorded bool  // they may be those that are recorded beside the rollups
	hidden   bool  // they tell how many numbers are hidden, too
	windows  *scan.Windows
	thinned  bool // of each hour the last sample is kept, so that rollups only tell of all

	endsOfMs int64 // no windows are wanted, but the ends of hours or days, on days that are whole: see planEnds; 0: windows
}

// servedBy reports whether a segment has the rollups that are wanted, if any are.
func (p *rollupPlan) servedBy(m *segment.Meta) bool {
	switch {
	case p.widthMs == 0:
		return false
	case p.endsOfMs > 0:
		return endsIn(m, p.endsOfMs) && endsAreLess(m, p.endsOfMs)
	case p.digests && p.thinned:
		return p.recorded && m.DayDigests && m.Thinned && m.HourEnds
	case p.digests:
		return p.recorded && m.DayDigests
	default:
		return m.Rollups && (m.ScanSums || !p.sums) && (!p.ends || endsIn(m, p.widthMs))
	}
}

// endsIn reports whether a segment has first and last values of the rollups of a width.
func endsIn(m *segment.Meta, widthMs int64) bool {
	if widthMs == segment.DayMs {
		return m.DayRollups
	}
	return m.HourEnds
}

// hourEnds reports whether the ends of hours are read beside their rollups.
func (p *rollupPlan) hourEnds() bool {
	return p.ends && p.widthMs == segment.HourMs || p.endsOfMs == segment.HourMs
}

// prefetch asks for what read reads first of a series, from fromMs on.
func (p *rollupPlan) prefetch(reader *segment.Reader, ref series.Ref, fromMs int64) {
	shard, id := ref.Shard, uint32(ref.ID)
	if p.digests || p.endsOfMs > 0 {
		reader.PrefetchDayDigests(shard, id, fromMs)
	}
	if !p.digests {
		reader.PrefetchRollups(shard, id, fromMs, cmp.Or(p.endsOfMs, p.widthMs))
	}
	if p.hourEnds() {
		reader.PrefetchHourEnds(shard, id, fromMs)
	}
}

// read appends the rollups of a segment that start in [fromMs, toMs].
func (p *rollupPlan) read(dst []segment.Rollup, reader *segment.Reader, ref series.Ref, fromMs, toMs int64) ([]segment.Rollup, error) {
	before := len(dst)
	dst, err := reader.Rollups(dst, ref.Shard, uint32(ref.ID), fromMs, toMs, p.widthMs)
	if hours := dst[before:]; err == nil && p.hourEnds() && len(hours) > 0 {
		err = reader.HourEnds(hours, ref.Shard, uint32(ref.ID))
	}
	return dst, err
}

// planRollups returns the widest rollups that windows may be made of. Windows that are no
// multiple of a day are made of hours, but for those in which one begins; long ones that tell of first
// and last values are made of days in the same way, as that reads less.
func planRollups(w *scan.Windows) rollupPlan {
	const ends = scan.AggregateFirst | scan.AggregateLast
	if w == nil || w.WidthMs < segment.HourMs {
		return rollupPlan{}
	}
	p := rollupPlan{
		sums: w.Aggregates&scan.AggregateSum != 0, digests: w.Aggregates&scan.AggregateDigest != 0,
		ends: w.Aggregates&ends != 0, windows: w,
	}
	days := w.WidthMs%segment.DayMs == 0 && w.OriginMs%segment.DayMs == 0
	switch {
	case p.digests:
		p.recorded, p.hidden = w.RecordedDigests, w.Aggregates&scan.AggregateHidden != 0
		if days && (p.recorded || p.hidden) {
			p.widthMs = segment.DayMs
		}
	case days, p.ends && w.WidthMs >= 2*segment.DayMs:
		p.widthMs = segment.DayMs
	case w.OriginMs%segment.HourMs == 0 && w.WidthMs%segment.HourMs == 0, w.WidthMs >= 2*segment.HourMs:
		p.widthMs = segment.HourMs
	}
	return p
}
