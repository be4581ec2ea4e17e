package segment

// Rollups appends the rollups of a series whose start lies in [fromMs, toMs] to
// dst, in order. The width is HourMs or DayMs; an hour without samples other than
// NaN has none. They tell of the samples of this segment only: see ExactSpans.Find. A
// segment without rollups (Meta.Rollups) gives none. Errors are *CorruptError,
// *vfs.FaultError and ErrOptions for another width; dst is then as before.
func (r *Reader) Rollups(dst []Rollup, shard uint16, id uint32, fromMs, toMs, widthMs int64) ([]Rollup, error) {
	if widthMs != HourMs && widthMs != DayMs {
		return dst, ErrOptions
	}
	before := len(dst)
	err := r.mapping.Guard(func(b []byte) error {
		s, ok, err := r.section(b, shard)
		if err != nil || !ok {
			return err
		}
		q := rollupQuery{id: id, fromMs: fromMs, toMs: toMs, widthMs: widthMs, dst: dst, first: before}
		err = q.readPages(&s)
		dst = q.dst
		return err
	})
	if err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// rollupQuery is one call of Rollups.
type rollupQuery struct {
	id           uint32
	fromMs, toMs int64
	widthMs      int64
	dst          []Rollup
	first        int // index in dst of the query's own first rollup
}

func (q *rollupQuery) readPages(s *section) error {
	pages := s.pages(pageRollup)
	for n := pages.first(q.id, q.fromMs); pages.has(n, q.id); n++ {
		e := pages.at(n)
		// A page begins with an hour, but its day may begin before.
		if e.id == q.id && floorTo(e.firstMs, q.widthMs) > q.toMs {
			return nil
		}
		var page pageReader
		if err := s.page(&page, &e, pageRollup); err != nil {
			return err
		}
		ok, reason := page.seek(q.id)
		for ok && page.id == q.id {
			if reason = q.readBody(page.body, &s.reader.meta); reason != "" {
				break
			}
			ok, reason = page.next()
		}
		if reason != "" {
			return s.corrupt(PartRollups, q.id, e.offset, reason)
		}
	}
	return nil
}

func (q *rollupQuery) readBody(body []byte, m *Meta) (reason string) {
	origin := floorTo(m.StartMs, HourMs)
	hours, rest, ok := cutRollups(body, origin, HourMs, m.ScanSums)
	if !ok {
		return "list of hours"
	}
	if q.widthMs == HourMs {
		return q.take(&hours, HourMs)
	}
	days, rest, ok := cutRollups(rest, floorTo(origin, DayMs), DayMs, m.ScanSums)
	if !ok || len(rest) > 0 {
		return "list of days"
	}
	if days.left > 0 {
		return q.take(&days, DayMs)
	}
	return q.take(&hours, DayMs) // a partition below a day keeps hours only
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
