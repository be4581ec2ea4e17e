package segment

import (
	"math"

	"github.com/tickmesh/tickmesh/api/series"
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
