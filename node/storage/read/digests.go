package read

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Digests of days are sums over samples, so what files have recorded of a day can be added up wherever no two of them have
// samples of one time: where the stretches of time that their blocks have on the day do not overlap. A day is read as samples
// where they do, where pages or tombstones tell of it, where the range of the request cuts a file's part of it, and where a file has no digests.
//
// Before a cut of raw the samples of a day are the last ones of its hours. A thinned file has recorded the digest of those that it has.
// They are the last ones, and numbers, if the ends of its hours, of which it knows the last number, have the same digest.

// digestDay is a day on which a series has samples.
type digestDay struct {
	rollup segment.Rollup
	dirty  bool // it is read as samples
}

// digestPiece is what the blocks of one segment have on a day.
type digestPiece struct {
	dayMs        int64
	reader       int // index into rollupReader.readers
	minMs, maxMs int64
	sampled      bool // a block begins or ends on the day, so it has samples; a block that reaches over it may have none there
	dirty        bool
}

// digestSource is what one segment has of a series on the days of a request.
type digestSource struct {
	fromMs, toMs int64 // starts of the first and the last of the days; fromMs > toMs: none
	samples      int64 // SamplesUnknown where a block reaches beyond the days
}

// digestReader is a Reader's memory for digests of days.
type digestReader struct {
	sources []digestSource // by reader
	pieces  []digestPiece
	days    []digestDay
	records []segment.Rollup
	hours   []segment.Rollup
	batch   []segment.Rollup
}

// readDigests emits the digests of days, and the samples of those days of which no records tell all, in order of time. What pages
// have is in the overlay.
func (r *Reader) readDigests(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, plan rollupPlan, emit func([]int64, []float64) error, emitRollups func([]segment.Rollup) error) error {
	if err := r.findDigestDays(ref, stones, within, plan); err != nil {
		return err
	}
	overlay, d := r.overlay, &r.rollup.digests
	defer func() { r.overlay = overlay }() // with its memory
	d.batch = d.batch[:0]
	for i := range d.days {
		day := &d.days[i]
		if !day.dirty {
			d.batch = append(d.batch, day.rollup)
			continue
		}
		if err := emitSome(d.batch, emitRollups); err != nil {
			return err
		}
		d.batch = d.batch[:0]
		part := segment.TimeRange{FromMs: max(within.FromMs, day.rollup.StartMs), ToMs: min(within.ToMs, day.rollup.StartMs+segment.DayMs-1)}
		if err := r.findBlocks(ref, stones, part.FromMs, part.ToMs); err != nil {
			return err
		}
		r.overlay.Times, r.overlay.Values = clipSorted(&overlay, part)
		if err := r.mergeSources(part, emit); err != nil {
			return err
		}
	}
	return emitSome(d.batch, emitRollups)
}

// findDigestDays sets digests.days, and, before a cut, rollup.thinned for those of them that are read as samples.
func (r *Reader) findDigestDays(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, plan rollupPlan) error {
	x := &r.rollup
	d := &x.digests
	candidates := r.candidates(ref.Shard, within.FromMs, within.ToMs)
	x.readers, d.sources, d.pieces = x.readers[:0], d.sources[:0], d.pieces[:0]
	for _, i := range candidates {
		x.readers = append(x.readers, r.Version.Segments[i])
	}
	for i := range x.readers {
		if err := r.appendDigestPieces(i, r.cursor(candidates[i]), ref, within, plan); err != nil {
			return err
		}
	}
	slices.SortFunc(d.pieces, func(a, b digestPiece) int {
		return cmp.Or(cmp.Compare(a.dayMs, b.dayMs), cmp.Compare(a.minMs, b.minMs), cmp.Compare(a.reader, b.reader))
	})
	d.days = d.days[:0]
	for i := range d.pieces {
		p := &d.pieces[i]
		if n := len(d.days); n == 0 || d.days[n-1].rollup.StartMs != p.dayMs {
			d.days = append(d.days, digestDay{rollup: segment.Rollup{StartMs: p.dayMs}, dirty: p.dirty})
			continue
		}
		day, before := &d.days[len(d.days)-1], &d.pieces[i-1]
		day.dirty = day.dirty || p.dirty || plan.thinned || p.minMs <= before.maxMs
		p.maxMs = max(p.maxMs, before.maxMs) // of the day so far
	}
	x.dirty = r.deletedSpans(x.dirty[:0], stones, within, wholeDays)
	for _, t := range r.overlay.Times {
		if n := len(x.dirty); n == 0 || t < x.dirty[n-1].FromMs || t > x.dirty[n-1].ToMs {
			x.dirty = append(x.dirty, wholeDays(t, t))
		}
	}
	d.markDirty(x.dirty, r.overlay.Times)
	if err := r.loadDigests(ref, plan); err != nil {
		return err
	}
	x.thinned = x.thinned[:0]
	if !plan.thinned || !plan.hidden {
		return nil
	}
	x.clean = x.clean[:0]
	for i := range d.days {
		if day := &d.days[i]; day.dirty {
			startMs := day.rollup.StartMs
			if err := r.findThinned(ref, stones, segment.TimeRange{FromMs: max(startMs, within.FromMs), ToMs: min(startMs+segment.DayMs-1, within.ToMs)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func wholeDays(fromMs, toMs int64) segment.TimeRange {
	return segment.TimeRange{FromMs: floorTo(fromMs, segment.DayMs), ToMs: floorTo(toMs, segment.DayMs) + segment.DayMs - 1}
}

// appendDigestPieces appends what the blocks of a segment have of a series, day by day.
func (r *Reader) appendDigestPieces(reader int, c *segment.Cursor, ref series.Ref, within segment.TimeRange, plan rollupPlan) error {
	d, s := &r.rollup.digests, r.rollup.readers[reader]
	days := wholeDays(within.FromMs, within.ToMs)
	if err := s.Find(c, ref.Shard, uint32(ref.ID), days.FromMs, days.ToMs); err != nil {
		return err
	}
	first, useful := len(d.pieces), plan.servedBy(s.Meta())
	source := digestSource{fromMs: math.MaxInt64, toMs: math.MinInt64}
	for c.Next() {
		b := c.Block()
		samples := int64(b.Samples)
		if b.MinMs < days.FromMs || b.MaxMs > days.ToMs {
			samples = segment.SamplesUnknown
		}
		source.samples = segment.SumOfKnown(source.samples, samples)
		for dayMs := max(floorTo(b.MinMs, segment.DayMs), days.FromMs); dayMs <= min(b.MaxMs, days.ToMs); dayMs += segment.DayMs {
			source.fromMs, source.toMs = min(source.fromMs, dayMs), max(source.toMs, dayMs)
			p := digestPiece{dayMs: dayMs, reader: reader, minMs: max(b.MinMs, dayMs), maxMs: min(b.MaxMs, dayMs+segment.DayMs-1)}
			// The record tells of all samples on the day, also of those that are outside of the range.
			p.dirty = !useful || p.minMs < within.FromMs || p.maxMs > within.ToMs
			p.sampled = b.MinMs >= dayMs || b.MaxMs < dayMs+segment.DayMs
			if n := len(d.pieces); n > first && d.pieces[n-1].dayMs == dayMs {
				last := &d.pieces[n-1]
				last.maxMs, last.dirty, last.sampled = p.maxMs, last.dirty || p.dirty, last.sampled || p.sampled
				continue
			}
			d.pieces = append(d.pieces, p)
		}
	}
	d.sources = append(d.sources, source)
	return c.Err()
}

// markDirty marks the days in some ranges, and adds those of some times that are in no segment.
func (d *digestReader) markDirty(ranges []segment.TimeRange, times []int64) {
	for _, t := range ranges {
		from, _ := slices.BinarySearchFunc(d.days, t.FromMs, compareDay)
		for ; from < len(d.days) && d.days[from].rollup.StartMs <= t.ToMs; from++ {
			d.days[from].dirty = true
		}
	}
	segments := len(d.days)
	for i, t := range times {
		dayMs := floorTo(t, segment.DayMs)
		if i > 0 && floorTo(times[i-1], segment.DayMs) == dayMs {
			continue
		}
		if _, found := slices.BinarySearchFunc(d.days[:segments], dayMs, compareDay); !found {
			d.days = append(d.days, digestDay{rollup: segment.Rollup{StartMs: dayMs}, dirty: true})
		}
	}
	if len(d.days) > segments {
		slices.SortFunc(d.days, func(a, b digestDay) int { return cmp.Compare(a.rollup.StartMs, b.rollup.StartMs) })
	}
}

func compareDay(d digestDay, dayMs int64) int { return cmp.Compare(d.rollup.StartMs, dayMs) }

// day returns the day that begins at a time; nil: there is none.
func (d *digestReader) day(startMs int64) *digestDay {
	if at, found := slices.BinarySearchFunc(d.days, startMs, compareDay); found {
		return &d.days[at]
	}
	return nil
}

// loadDigests adds up the records of days that are not dirty. Days of which records are damaged, or missing, become dirty. Days without
// samples are left out.
func (r *Reader) loadDigests(ref series.Ref, plan rollupPlan) error {
	for i, reader := range r.rollup.readers {
		err := r.loadDigestsOf(i, ref, plan)
		var corrupt *segment.CorruptError
		if !errors.As(err, &corrupt) {
			if err != nil {
				return err
			}
			continue
		}
		if reader.NoteRollupDamage(ref.Shard) {
			r.source.o.Corrupt(err)
		}
		if plan.thinned && plan.hidden && corrupt.Part != segment.PartDayDigests {
			return err // its samples are not all that the hours had
		}
		for _, p := range r.rollup.digests.pieces {
			if day := r.rollup.digests.day(p.dayMs); p.reader == i {
				day.dirty = true
			}
		}
	}
	d := &r.rollup.digests
	d.days = slices.DeleteFunc(d.days, func(day digestDay) bool { return !day.dirty && day.rollup.Count == 0 })
	return nil
}

func (r *Reader) loadDigestsOf(at int, ref series.Ref, plan rollupPlan) (err error) {
	d, reader := &r.rollup.digests, r.rollup.readers[at]
	source := &d.sources[at]
	if !slices.ContainsFunc(d.pieces, func(p digestPiece) bool { return p.reader == at && !d.day(p.dayMs).dirty }) {
		return nil
	}
	if d.records, err = reader.DayDigests(d.records[:0], ref.Shard, uint32(ref.ID), source.fromMs, source.toMs); err != nil {
		return err
	}
	if plan.thinned {
		if err := r.loadHours(reader, ref, source.fromMs, source.toMs+segment.DayMs-1); err != nil {
			return err
		}
	}
	samples, hours, missing := int64(0), d.hours, false
	for i := range d.records {
		samples += d.records[i].Count
	}
	for i := range d.pieces {
		p := &d.pieces[i]
		if p.reader != at {
			continue
		}
		day := d.day(p.dayMs)
		if day.dirty {
			continue
		}
		n, found := slices.BinarySearchFunc(d.records, p.dayMs, func(r segment.Rollup, dayMs int64) int { return cmp.Compare(r.StartMs, dayMs) })
		if !found {
			missing = missing || p.sampled
			continue
		}
		record := &d.records[n]
		if plan.thinned {
			hours = day.takeHours(record, hours)
		}
		day.rollup.Count += record.Count
		day.rollup.Digest += record.Digest
	}
	// A day without a record would look like one without samples.
	if missing || source.samples != segment.SamplesUnknown && source.samples != samples {
		return &segment.CorruptError{
			File: reader.Meta().Name, Part: segment.PartDayDigests, Shard: ref.Shard, ID: uint32(ref.ID),
			Reason: fmt.Sprintf("day digests of %d samples from %d to %d ms, not of %d", samples, source.fromMs, source.toMs+segment.DayMs-1, source.samples),
		}
	}
	return nil
}

// loadHours sets digests.hours to the rollups that a segment has of hours, with their ends.
func (r *Reader) loadHours(reader *segment.Reader, ref series.Ref, fromMs, toMs int64) (err error) {
	d := &r.rollup.digests
	d.hours, err = reader.Rollups(d.hours[:0], ref.Shard, uint32(ref.ID), fromMs, toMs, segment.HourMs)
	if err == nil && len(d.hours) > 0 {
		err = reader.HourEnds(d.hours, ref.Shard, uint32(ref.ID))
	}
	return err
}

// takeHours compares the record of a thinned day with the ends of its hours, and makes the day dirty if the samples that the file
// has are not the last numbers of all hours. It returns the later hours.
func (d *digestDay) takeHours(record *segment.Rollup, hours []segment.Rollup) (later []segment.Rollup) {
	endMs := record.StartMs + segment.DayMs
	numbers, samples, digest := int64(0), int64(0), uint64(0)
	for ; len(hours) > 0 && hours[0].StartMs < endMs; hours = hours[1:] {
		if h := &hours[0]; h.StartMs >= record.StartMs {
			numbers, samples = numbers+h.Count, samples+1
			digest += scan.DigestSamples([]int64{h.LastMs}, []float64{h.Last})
		}
	}
	d.dirty = samples != record.Count || digest != record.Digest
	d.rollup.Hidden = numbers - samples
	return hours
}
