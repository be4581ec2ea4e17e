package read

import (
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

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

// RollupsAtOnce bounds the rollups that are held.
const RollupsAtOnce = 1024

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
