package segment

import (
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// hourRecords are the rollups that a thinned file has of one series, by hour. They go over into the
// file that a merge writes, as most of the samples that they tell of are gone.
type hourRecords struct {
	records []rollupRecord
	at      int

	hourMs  int64 // of the sample seen last
	thinned bool  // in it the file lacks samples
}

// load reads what a file has of a series: nothing, if it is not thinned.
func (h *hourRecords) load(r *Reader, shard uint16, id uint32) error {
	*h = hourRecords{records: h.records[:0], hourMs: math.MinInt64}
	if !r.meta.Thinned {
		return nil
	}
	err := r.eachBody(pageRollup, shard, id, math.MinInt64, math.MaxInt64, func(body []byte) (reason string) {
		list, _, ok := cutRollups(body, r.meta.Partition, HourMs, r.meta.ScanSums)
		if !ok {
			return "list of hours"
		}
		for {
			rollup, ok, whole := list.next()
			if !whole {
				return "record of a rollup"
			}
			if !ok {
				return ""
			}
			h.records = append(h.records, list.record(&rollup))
		}
	})
	if err != nil {
		return err
	}
	at := 0
	err = r.eachBody(pageHourEnds, shard, id, math.MinInt64, math.MaxInt64, func(body []byte) (reason string) {
		n, reason := setRecordEnds(h.records[at:], body, r.meta.Partition)
		at += n
		return reason
	})
	if err == nil && at < len(h.records) {
		err = &CorruptError{File: r.name, Part: PartRollups, Shard: shard, ID: id, Reason: "no ends of an hour"}
	}
	return err
}

// record returns the numbers of the rollup that was read last.
func (l *rollupList) record(r *Rollup) rollupRecord {
	record := rollupRecord{startMs: r.StartMs, count: r.Count, scanSum: r.Sum}
	if l.scale > series.ScaleMax {
		record.min, record.max, record.sum = series.DecimalOf(r.Min, 0), series.DecimalOf(r.Max, 0), series.FloatNumber(r.Sum)
		return record
	}
	at := func(mantissa int64) series.Number { return series.Number{Mantissa: mantissa, Scale: l.scale} }
	record.min, record.max, record.sum = at(l.low), at(l.most), at(l.total)
	return record
}

// setRecordEnds sets the ends of the first of some hours, as far as an entry has them, and returns the number of these.
func setRecordEnds(hours []rollupRecord, body []byte, p Partition) (n int, reason string) {
	list, ok := openHourEnds(body, p)
	if !ok {
		return 0, "list of ends of hours"
	}
	for {
		startMs, ends, ok, whole := list.next()
		switch {
		case !whole:
			return n, "record of the ends of an hour"
		case !ok:
			return n, ""
		case n == len(hours) || startMs != hours[n].startMs:
			return n, "ends of no hour"
		}
		hours[n].recordEnds = list.record(&ends)
		n++
	}
}

// record returns the numbers of the ends that were read last.
func (l *hourEndsList) record(e *Ends) recordEnds {
	r := recordEnds{firstMs: e.FirstMs, lastMs: e.LastMs}
	if l.scale > series.ScaleMax {
		r.first, r.last = series.DecimalOf(e.First, 0), series.DecimalOf(e.Last, 0)
		return r
	}
	r.first, r.last = series.Number{Mantissa: l.first, Scale: l.scale}, series.Number{Mantissa: l.last, Scale: l.scale}
	return r
}

// enter tells of the next sample of the file. First reports that it is the first one of an hour that the file has been
// thinned in: the record then tells of the hour.
func (h *hourRecords) enter(timeMs int64) (record *rollupRecord, first bool) {
	hourMs := floorTo(timeMs, HourMs)
	if first = hourMs != h.hourMs; !first {
		return nil, false
	}
	h.hourMs = hourMs
	for h.at < len(h.records) && h.records[h.at].startMs < hourMs {
		h.at++
	}
	if h.at == len(h.records) || h.records[h.at].startMs > hourMs {
		h.thinned = false
		return nil, false
	}
	// Only where samples are left out the first sample is not what the record has as such.
	record = &h.records[h.at]
	h.thinned = record.firstMs < timeMs
	return record, h.thinned
}

// thinner keeps the last sample of each hour of a series. It is a part of merger.
type thinner struct {
	beforeMs int64         // samples before it are thinned
	held     codec.Columns // the last one of the open hour, if that is thinned
	visible  codec.Columns // scratch
}

func (t *thinner) begin(before func(shard uint16, id uint32) int64, shard uint16, id uint32) {
	t.beforeMs = math.MinInt64
	if before != nil {
		t.beforeMs = before(shard, id)
	}
}

// addThinned takes samples of one input into an output that is thinned. What is hidden is left out.
func (m *merger) addThinned(in *input, shard uint16, id uint32, part codec.Columns) error {
	for part.Len() > 0 {
		n := max(1, hourEnd(part.Times, floorTo(part.Times[0], HourMs)+HourMs))
		hour := columnsBetween(&part, 0, n)
		part = columnsBetween(&part, n, part.Len())
		record, first := in.hours.enter(hour.Times[0])
		visible := m.showVisible(in, id, &hour)
		if visible.Len() == 0 {
			continue
		}
		if err := m.w.enter(shard, id, visible.Times[0]); err != nil {
			return err
		}
		if !first {
			record = nil
		}
		if err := m.w.keep(m.addHour(id, visible, record, in.hours.thinned)); err != nil {
			return err
		}
	}
	return nil
}

// showVisible returns the samples of an hour that are not hidden; the others go out of the digest.
func (m *merger) showVisible(in *input, id uint32, hour *codec.Columns) *codec.Columns {
	if len(in.hidden) == 0 || !in.hides(hour.Times[0], hour.Times[hour.Len()-1]) {
		return hour
	}
	visible := &m.thinner.visible
	visible.Reset()
	for i, t := range hour.Times {
		one := columnsBetween(hour, i, i+1)
		if in.hides(t, t) {
			m.drop(id, &one, 1)
			continue
		}
		appendColumns(visible, &one)
	}
	return visible
}

// addHour takes visible samples of one hour, and the record that tells of them instead, if there is one.
func (m *merger) addHour(id uint32, c *codec.Columns, record *rollupRecord, recorded bool) error {
	t, s := &m.thinner, &m.w.section
	hourMs := floorTo(c.Times[0], HourMs)
	if t.held.Len() > 0 && floorTo(t.held.Times[0], HourMs) != hourMs {
		if err := m.endThinned(); err != nil {
			return err
		}
	}
	switch {
	case record != nil:
		s.foldRecord(record)
	case !recorded || s.rollups.hour.startMs != hourMs:
		s.foldRollups(c, true)
	}
	if hourMs >= t.beforeMs && t.held.Len() == 0 {
		return s.storeKept(c)
	}
	if t.held.Len() > 0 {
		m.drop(id, &t.held, 1)
		t.held.Reset()
	}
	last := columnsBetween(c, c.Len()-1, c.Len())
	m.drop(id, c, c.Len()-1)
	appendColumns(&t.held, &last)
	return nil
}

// endThinned writes the sample that is held.
func (m *merger) endThinned() error {
	held := &m.thinner.held
	if held.Len() == 0 {
		return nil
	}
	err := m.w.keep(m.w.section.storeKept(held))
	held.Reset()
	return err
}

func appendColumns(dst, c *codec.Columns) {
	dst.Times = append(dst.Times, c.Times...)
	dst.Mantissas = append(dst.Mantissas, c.Mantissas...)
	dst.Scales = append(dst.Scales, c.Scales...)
}

// storeKept writes samples of the open hour, of which the rollups tell already.
func (s *sectionWriter) storeKept(c *codec.Columns) error {
	s.rollups.foldKept(c)
	return s.store(c)
}

// foldRecord takes the record of an hour into the rollups of the series.
func (s *sectionWriter) foldRecord(r *rollupRecord) {
	if s.rollups.moveTo(r.startMs) {
		s.commitPieces()
	}
	s.rollups.foldRecord(r)
	s.commitPieces()
}

// foldKept takes samples of the open day into its digest.
func (b *rollupBuilder) foldKept(c *codec.Columns) {
	b.setValues(c, c.Len())
	b.digest.samples += int64(c.Len())
	b.digest.sum += scan.DigestSamples(c.Times, b.values)
}

// foldRecord takes a record of the open hour, which comes before its other samples.
func (b *rollupBuilder) foldRecord(r *rollupRecord) {
	b.hour.merge(aggregateOfRecord(r))
	b.hour.scanSum += r.scanSum
	e := &b.hourEnds
	if !b.hourKnown {
		e.first, e.firstMs, b.hourKnown = r.first, r.firstMs, true
	}
	e.last, e.lastMs = r.last, r.lastMs
	if b.withDays {
		b.dayEnds.addRecord(r)
	}
}

// aggregateOfRecord returns what a record tells of its samples.
func aggregateOfRecord(r *rollupRecord) aggregate {
	numbers := [...]*series.Number{&r.min, &r.max, &r.sum}
	scale := uint8(0)
	for _, n := range numbers {
		scale = max(scale, n.Scale)
	}
	a := aggregate{count: r.count, scale: scale}
	exact := scale <= series.ScaleMax
	for i, to := range [...]*int64{&a.minNumber, &a.maxNumber, &a.total} {
		if *to = numbers[i].Mantissa; exact {
			exact = mulWithin(to, powerOf10(scale-numbers[i].Scale), math.MaxInt64)
		}
	}
	if exact {
		return a
	}
	return aggregate{
		count: r.count, scale: series.ScaleFloat,
		minFloat: r.min.Float64(), maxFloat: r.max.Float64(), sumFloat: r.sum.Float64(),
	}
}

// addRecord takes an hour of which the samples are gone. When within it its extremes were is not known any more: they
// count as of its first sample.
func (d *dayEnds) addRecord(r *rollupRecord) {
	fresh := !d.known
	if fresh {
		d.first, d.firstMs, d.known = r.first, r.firstMs, true
	}
	d.last, d.lastMs = r.last, r.lastMs
	if least := r.min.Float64(); fresh || least < d.min {
		d.min, d.minMs = least, r.firstMs
	}
	if most := r.max.Float64(); fresh || most > d.max {
		d.max, d.maxMs = most, r.firstMs
	}
}
