package read

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// A caller that looks for the newest sample at whole hours or days (scan.Request.EndsOfMs) gets the first and the last
// sample of each, where a segment has them: on days that one segment alone tells of, and that have no sample
// which is NaN, as a marker of staleness is, since rollups leave these out.

const (
	// endsDaysMin is the shortest range of which ends are read: one day at least of it is whole.
	endsDaysMin = 2
	// endsSamplesMin is how many samples an hour or day of a series has on the average where its rollup and its
	// ends are shorter than they.
	endsSamplesMin = 16
	// endsDaysAtOnce bounds the hours that are held.
	endsDaysAtOnce = RollupsAtOnce / 24
)

// planEnds returns how the samples are read that a request with EndsOfMs asks for.
func planEnds(request *scan.Request) rollupPlan {
	if request.ToMs-max(request.FromMs, scan.TimeMsMin) < endsDaysMin*segment.DayMs {
		return rollupPlan{}
	}
	return rollupPlan{widthMs: segment.DayMs, endsOfMs: request.EndsOfMs}
}

// endsAreLess reports whether the ends of hours or days of a segment are less to read than its samples.
func endsAreLess(m *segment.Meta, widthMs int64) bool {
	return m.Samples/endsSamplesMin >= m.Series*((m.MaxMs-m.MinMs)/widthMs+1)
}

// readEnds emits the hours or days of a span, with their ends. Days that have NaN it leaves to samples, which emits all
// from at to a time. It moves at behind what it has read, and stops before what is damaged.
func (r *Reader) readEnds(ref series.Ref, s segment.ExactSpan, plan rollupPlan, at *int64, samples func(toMs int64) error, emit func([]segment.Rollup) error) error {
	for from := s.FromMs; from < s.ToMs; {
		to := min(s.ToMs, from+endsDaysAtOnce*segment.DayMs)
		err := r.loadEnds(ref, s, plan.endsOfMs, segment.TimeRange{FromMs: from, ToMs: to - 1})
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) {
			if r.Version.Segments[s.Reader].NoteRollupDamage(ref.Shard) {
				r.source.o.Corrupt(err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.emitWholeDays(to, at, samples, emit); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// loadEnds reads the hours or days of a stretch of a span, with their ends, and the digests of its days.
func (r *Reader) loadEnds(ref series.Ref, s segment.ExactSpan, widthMs int64, within segment.TimeRange) (err error) {
	reader, x := r.Version.Segments[s.Reader], &r.rollup
	if x.days, err = reader.DayDigests(x.days[:0], ref.Shard, uint32(ref.ID), within.FromMs, within.ToMs); err != nil {
		return err
	}
	if within.FromMs == s.FromMs && within.ToMs == s.ToMs-1 {
		if err = compareSamples(reader, ref, s, x.days); err != nil {
			return err
		}
	}
	x.rollups, err = reader.Rollups(x.rollups[:0], ref.Shard, uint32(ref.ID), within.FromMs, within.ToMs, widthMs)
	if err != nil || len(x.rollups) == 0 || widthMs == segment.DayMs {
		return err
	}
	return reader.HourEnds(x.rollups, ref.Shard, uint32(ref.ID))
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

// emitWholeDays emits the rollups of those loaded days, up to toMs, of which they have counted all samples, and reads
// the samples of the others.
func (r *Reader) emitWholeDays(toMs int64, at *int64, samples func(toMs int64) error, emit func([]segment.Rollup) error) error {
	rest, left := r.rollup.rollups, false // left: days from at on are left to samples
	run := rest[:0]                       // of days in a row, to be emitted
	for _, day := range r.rollup.days {
		n, count, endMs := 0, int64(0), day.StartMs+segment.DayMs
		for ; n < len(rest) && rest[n].StartMs < endMs; n++ {
			count += rest[n].Count
		}
		if count != day.Count || rest[0].StartMs < day.StartMs {
			if err := emitSome(run, emit); err != nil {
				return err
			}
			rest, left = rest[n:], true
			run = rest[:0]
			continue
		}
		if left {
			if err := samples(day.StartMs - 1); err != nil {
				return err
			}
		}
		run, rest, left, *at = run[:len(run)+n], rest[n:], false, endMs
	}
	if err := emitSome(run, emit); err != nil {
		return err
	}
	if left || len(rest) > 0 {
		return samples(toMs - 1)
	}
	*at = toMs
	return nil
}

func emitSome(rollups []segment.Rollup, emit func([]segment.Rollup) error) error {
	if len(rollups) == 0 {
		return nil
	}
	return emit(rollups)
}
