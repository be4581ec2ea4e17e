package read

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// findClean sets rollup.clean to the spans that are exact and in which nothing but one
// segment describes the series. Their Reader is that of the version.
func (r *Reader) findClean(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, plan rollupPlan) (err error) {
	x := &r.rollup
	candidates := r.candidates(ref.Shard, within.FromMs, within.ToMs)
	x.readers = x.readers[:0]
	for _, i := range candidates {
		x.readers = append(x.readers, r.Version.Segments[i])
	}
	cursor := func(reader int) *segment.Cursor { return r.cursor(candidates[reader]) }
	x.exact, err = x.finder.Find(x.exact[:0], x.readers, cursor, ref.Shard, uint32(ref.ID), within.FromMs, within.ToMs, plan.widthMs, plan.servedBy)
	if err != nil {
		return err
	}
	for i := range x.exact {
		x.exact[i].Reader = int(candidates[x.exact[i].Reader])
	}
	x.dirty = r.dirtySpans(x.dirty[:0], stones, within, plan)
	x.clean = subtract(x.clean[:0], x.exact, x.dirty)
	return nil
}

// dirtySpans returns the stretches that are to be read as samples whatever the segments
// have: where pages or tombstones tell of the series, what the range cuts, and where
// windows begin within a rollup. They are whole multiples of the rollups' width, sorted.
func (r *Reader) dirtySpans(dst []segment.TimeRange, stones []*manifest.Tombstone, within segment.TimeRange, plan rollupPlan) []segment.TimeRange {
	width := plan.widthMs
	whole := func(fromMs, toMs int64) segment.TimeRange {
		return segment.TimeRange{FromMs: floorTo(fromMs, width), ToMs: floorTo(toMs, width) + width - 1}
	}
	for i, t := range r.overlay.Times {
		if i == 0 || t > dst[len(dst)-1].ToMs {
			dst = append(dst, whole(t, t))
		}
	}
	dst = r.deletedSpans(dst, stones, within, whole)
	if floorTo(within.FromMs, width) != within.FromMs {
		dst = append(dst, whole(within.FromMs, within.FromMs))
	}
	if floorTo(within.ToMs+1, width) != within.ToMs+1 {
		dst = append(dst, whole(within.ToMs, within.ToMs))
	}
	if w := plan.windows; w != nil && (w.OriginMs%width != 0 || w.WidthMs%width != 0) {
		for _, e := range r.rollup.exact {
			at := w.OriginMs + floorTo(e.FromMs-w.OriginMs, w.WidthMs)
			for ; at < e.ToMs; at += w.WidthMs {
				if floorTo(at, width) != at {
					dst = append(dst, whole(at, at))
				}
			}
		}
	}
	slices.SortFunc(dst, func(a, b segment.TimeRange) int { return cmp.Compare(a.FromMs, b.FromMs) })
	return dst
}

// deletedSpans appends the stretches of which rollups tell of samples that are deleted. A segment that was written without these
// has rollups without them.
func (r *Reader) deletedSpans(dst []segment.TimeRange, stones []*manifest.Tombstone, within segment.TimeRange, whole func(fromMs, toMs int64) segment.TimeRange) []segment.TimeRange {
	for _, t := range stones {
		for _, reader := range r.rollup.readers {
			m := reader.Meta()
			from, to := max(t.FromMs, within.FromMs, m.MinMs), min(t.ToMs, within.ToMs, m.MaxMs)
			if from <= to && t.Concerns(m, r.Version.Purged) {
				dst = append(dst, whole(from, to))
			}
		}
	}
	return dst
}

// subtract appends what is left of spans without the dirty ones, which are sorted but may
// overlap.
func subtract(dst, spans []segment.ExactSpan, dirty []segment.TimeRange) []segment.ExactSpan {
	for _, s := range spans {
		for len(dirty) > 0 && dirty[0].ToMs < s.FromMs {
			dirty = dirty[1:]
		}
		for _, d := range dirty {
			if d.FromMs >= s.ToMs {
				break
			}
			if d.FromMs > s.FromMs {
				dst = append(dst, segment.ExactSpan{FromMs: s.FromMs, ToMs: d.FromMs, Reader: s.Reader, Samples: segment.SamplesUnknown})
			}
			s.FromMs, s.Samples = max(s.FromMs, d.ToMs+1), segment.SamplesUnknown
		}
		if s.FromMs < s.ToMs {
			dst = append(dst, s)
		}
	}
	return dst
}
