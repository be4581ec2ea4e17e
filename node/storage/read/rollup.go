package read

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
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

// rollupReader is a Reader's memory for rollups.
type rollupReader struct {
	readers []*segment.Reader
	finder  segment.ExactSpans
	exact   []segment.ExactSpan
	clean   []segment.ExactSpan
	dirty   []segment.TimeRange
	rollups []segment.Rollup
	thinned []segment.Rollup // hours of thinned files, where others have samples at about the same time
	days    []segment.Rollup // digests, beside the rollups of hours
	digests digestReader
}

// readWindowed is read for windows, and for the ends of hours or days: whole hours or days of which the rollups of one
// segment tell everything are given as such to emitRollups, all else as samples. Both come
// in order of time.
func (r *Reader) readWindowed(ref series.Ref, fromMs, toMs int64, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	fromMs, toMs = max(fromMs, scan.TimeMsMin), min(toMs, scan.TimeMsMax)
	cut, err := r.source.o.Shards[ref.Shard].CutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs = max(fromMs, cut); fromMs > toMs {
		return nil
	}
	thinMs, err := r.source.o.Shards[ref.Shard].ThinCutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs < thinMs {
		within := segment.TimeRange{FromMs: fromMs, ToMs: min(toMs, thinMs-1)}
		if err = r.readThinnedWindows(ref, within, plan, emit, emitRollups); err != nil || toMs < thinMs {
			return err
		}
		fromMs = thinMs
	}
	r.enter()
	if !r.rollupsLikely(ref.Shard, fromMs, toMs, plan) {
		return r.Read(ref, fromMs, toMs, emit)
	}
	return r.readRolled(ref, segment.TimeRange{FromMs: fromMs, ToMs: toMs}, plan, emit, emitRollups)
}

// readRolled is readWindowed for a range that lies before no cut, or is thinned as a whole. It ends what the caller has
// entered.
func (r *Reader) readRolled(ref series.Ref, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	defer r.leaveLong()
	fromMs, toMs := within.FromMs, within.ToMs
	ordered, err := r.readPages(ref, within)
	stones := r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))
	r.Park()
	if err != nil {
		return err
	}
	streamed := ordered && plan.endsOfMs > 0 && len(r.chain) >= streamPagesMin
	if streamed {
		if err = r.findBlocks(ref, stones, fromMs, toMs); err != nil {
			r.source.o.Files.NoteDamage(ref.Shard, err)
			return err
		}
		streamed = r.pagesAreLater()
	}
	if streamed {
		r.overlay.Reset()
		err = r.charge(0, overlayPointBytes)
	} else {
		err = r.decodeOverlay(ref, stones, within, overlayPointBytes+mergedPointBytes)
	}
	if err != nil {
		return err
	}
	err = r.source.Lacks(r.Version, ref.Shard, within)
	if err == nil && plan.digests {
		if err = r.readDigests(ref, stones, within, plan, emit, emitRollups); err != nil {
			r.source.o.Files.NoteDamage(ref.Shard, err)
		}
		return err
	}
	if err == nil && plan.thinned && plan.widthMs == segment.DayMs && (len(r.overlay.Times) > 0 || r.overlaps(ref.Shard, fromMs, toMs)) {
		plan.widthMs = segment.HourMs // a day of which several tell is added up from its hours
	}
	if err == nil {
		err = r.findClean(ref, stones, within, plan)
	}
	if err == nil && plan.thinned {
		r.rollup.thinned = r.rollup.thinned[:0]
		err = r.findThinned(ref, stones, within)
	}
	if err == nil {
		err = r.readMixed(ref, stones, within, plan, emit, emitRollups)
	}
	if err == nil && streamed {
		return r.streamPages(ref, stones, within, emit) // behind the ends of an hour, too, of which they have the rest
	}
	if err != nil {
		r.source.o.Files.NoteDamage(ref.Shard, err)
	}
	return err
}

// rollupsLikely reports whether a segment that may have the series has rollups.
func (r *Reader) rollupsLikely(shard uint16, fromMs, toMs int64, plan rollupPlan) bool {
	return slices.ContainsFunc(r.candidates(shard, fromMs, toMs), func(i int32) bool {
		return plan.servedBy(r.Version.Segments[i].Meta())
	})
}

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

// RollupsAtOnce bounds the rollups that are held.
const RollupsAtOnce = 1024

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

// readMixed reads clean spans as rollups and what lies between them as samples.
func (r *Reader) readMixed(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	overlay, at := r.overlay, within.FromMs
	samples := func(toMs int64) error {
		if at > toMs {
			return nil
		}
		part := segment.TimeRange{FromMs: at, ToMs: toMs}
		at = toMs + 1
		if err := r.findBlocks(ref, stones, part.FromMs, part.ToMs); err != nil {
			return err
		}
		r.overlay.Times, r.overlay.Values = clipSorted(&overlay, part)
		return r.mergeSources(part, emit)
	}
	defer func() { r.overlay = overlay }() // with its memory
	for _, s := range r.rollup.clean {
		err := samples(s.FromMs - 1)
		switch {
		case err != nil:
		case plan.endsOfMs > 0:
			err = r.readEnds(ref, s, plan, &at, samples, emitRollups)
		default:
			err = r.readRollups(ref, s, plan, &at, emitRollups)
		}
		if err != nil {
			return err
		}
	}
	return samples(within.ToMs)
}

// readRollups emits the rollups of a span, a few at a time, and moves at behind them. It
// ends before those that are damaged, or do not tell of all samples: the samples are there.
func (r *Reader) readRollups(ref series.Ref, s segment.ExactSpan, plan rollupPlan, at *int64, emit func([]segment.Rollup) error) error {
	reader, x := r.Version.Segments[s.Reader], &r.rollup
	for from := s.FromMs; from < s.ToMs; from = *at {
		to := min(s.ToMs, from+RollupsAtOnce*plan.widthMs)
		rollups, err := plan.read(x.rollups[:0], reader, ref, from, to-1)
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) {
			if reader.NoteRollupDamage(ref.Shard) {
				r.source.o.Corrupt(err)
			}
			if plan.thinned && reader.Meta().Thinned {
				return err // its samples are not all that the hours had
			}
			return nil
		}
		if err != nil {
			return err
		}
		x.rollups, *at = rollups, to
		if err := emit(rollups); err != nil {
			return err
		}
	}
	return nil
}

// compareSamples returns an error if the digests of a span do not tell of all of its samples, as far as is known
// without reading them: a day without a digest would look like one without samples.
func compareSamples(reader *segment.Reader, ref series.Ref, s segment.ExactSpan, digests []segment.Rollup) error {
	samples := int64(0)
	for i := range digests {
		samples += digests[i].Count
	}
	if s.Samples == segment.SamplesUnknown || s.Samples == samples {
		return nil
	}
	return &segment.CorruptError{
		File: reader.Meta().Name, Part: segment.PartDayDigests, Shard: ref.Shard, ID: uint32(ref.ID),
		Reason: fmt.Sprintf("day digests of %d samples from %d to %d ms, not of %d", samples, s.FromMs, s.ToMs-1, s.Samples),
	}
}
