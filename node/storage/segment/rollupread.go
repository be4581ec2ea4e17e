package segment

import "math"

// Rollups appends the rollups of a series whose start lies in [fromMs, toMs] to
// dst, in order. The width is HourMs or DayMs; an hour without samples other than
// NaN has none. Ends are there of days of segments with Meta.DayRollups. They tell of the samples of this segment only: see ExactSpans.Find. A
// segment without rollups (Meta.Rollups) has none. Errors are *CorruptError,
// *vfs.FaultError and ErrOptions for another width; dst is then as before.
func (r *Reader) Rollups(dst []Rollup, shard uint16, id uint32, fromMs, toMs, widthMs int64) ([]Rollup, error) {
	if widthMs != HourMs && widthMs != DayMs {
		return dst, ErrOptions
	}
	q := rollupQuery{fromMs: fromMs, toMs: toMs, widthMs: widthMs, dst: dst, first: len(dst)}
	// A page begins with an hour, but its day may begin before.
	lastMs := min(toMs, math.MaxInt64-DayMs) + widthMs - 1
	kind := r.meta.rollupPages(widthMs)
	err := r.eachBody(kind, shard, id, fromMs, lastMs, func(body []byte) (reason string) { return q.readBody(body, kind, &r.meta) })
	if err != nil {
		return dst, err
	}
	return q.dst, nil
}

// HourEnds sets first and last value, with their times, of hours of one series that Rollups has returned, one or
// more, in order. It is for segments with Meta.HourEnds. Errors are *CorruptError, also where an hour has no ends or values
// beyond its extremes, and *vfs.FaultError; the hours then have the ends of none.
func (r *Reader) HourEnds(hours []Rollup, shard uint16, id uint32) error {
	at := 0
	err := r.eachBody(pageHourEnds, shard, id, hours[0].StartMs, hours[len(hours)-1].StartMs+HourMs-1, func(body []byte) (reason string) {
		n, reason := setHourEnds(hours[at:], body, r.meta.Partition)
		at += n
		return reason
	})
	if err == nil && at < len(hours) {
		err = &CorruptError{File: r.name, Part: PartRollups, Shard: shard, ID: id, Reason: "no ends of an hour"}
	}
	if err != nil {
		for i := range hours {
			hours[i].Ends = Ends{}
		}
	}
	return err
}

// rollupPages returns the kind of pages that has the rollups of a width.
func (m *Meta) rollupPages(widthMs int64) pageKind {
	if widthMs == DayMs && m.DayRollups {
		return pageDayRollups
	}
	return pageRollup
}

// eachBody visits the bodies of a series' entries in the pages of a kind, from the first one
// that may tell of fromMs to the last one whose page begins by lastMs.
func (r *Reader) eachBody(kind pageKind, shard uint16, id uint32, fromMs, lastMs int64, visit func(body []byte) (reason string)) error {
	return r.mapping.Guard(func(b []byte) error {
		s, ok, err := r.section(b, shard)
		if err != nil || !ok {
			return err
		}
		pages, err := s.pagesOf(kind)
		if err != nil {
			return err
		}
		for n := pages.first(id, fromMs); pages.has(n, id); n++ {
			e := pages.at(n)
			if e.id == id && e.firstMs > lastMs {
				return nil
			}
			var page pageReader
			if err := s.page(&page, &e, kind); err != nil {
				return err
			}
			ok, reason := page.seek(id)
			for ok && page.id == id {
				if reason = visit(page.body); reason != "" {
					break
				}
				ok, reason = page.next()
			}
			if reason != "" {
				return s.corrupt(partOf(kind), id, e.offset, reason)
			}
		}
		return nil
	})
}

// rollupQuery is one call of Rollups.
type rollupQuery struct {
	fromMs, toMs int64
	widthMs      int64
	dst          []Rollup
	first        int // index in dst of the query's own first rollup
}

func (q *rollupQuery) readBody(body []byte, kind pageKind, m *Meta) (reason string) {
	if kind == pageDayRollups {
		days, rest, ok := cutRollups(body, m.Partition, DayMs, m.ScanSums)
		if !ok || len(rest) > 0 {
			return "list of days with ends"
		}
		days.ends = true
		return q.take(&days, DayMs)
	}
	hours, rest, ok := cutRollups(body, m.Partition, HourMs, m.ScanSums)
	if !ok {
		return "list of hours"
	}
	if q.widthMs == HourMs {
		return q.take(&hours, HourMs)
	}
	days, rest, ok := cutRollups(rest, m.Partition, DayMs, m.ScanSums)
	if !ok || len(rest) > 0 {
		return "list of days"
	}
	if days.left > 0 {
		return q.take(&days, DayMs)
	}
	return q.take(&hours, DayMs) // of a partition below a day, or where an older program has dropped day rollups
}

// take appends the rollups of a list, by day where the list is by hour and the
// query by day.
func (q *rollupQuery) take(list *rollupList, widthMs int64) (reason string) {
	for {
		r, ok, whole := list.next()
		if !whole {
			return "record of a rollup"
		}
		if !ok {
			return ""
		}
		r.StartMs = floorTo(r.StartMs, widthMs)
		if r.StartMs < q.fromMs || r.StartMs > q.toMs {
			continue
		}
		if n := len(q.dst); list.widthMs != widthMs && n > q.first && q.dst[n-1].StartMs == r.StartMs {
			q.dst[n-1].Merge(&r)
			continue
		}
		q.dst = append(q.dst, r)
	}
}
