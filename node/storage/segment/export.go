package segment

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Verify reads all blocks, index pages, rollup pages and day digests, and compares the
// samples of each shard with its digest. It returns the first error: a *CorruptError, a
// *vfs.FaultError or that of the context.
func (r *Reader) Verify(ctx context.Context) error {
	for n := range r.meta.Shards {
		if err := r.verifyShard(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) verifyShard(ctx context.Context, n int) error {
	var w walker
	w.start(r, n, n+1)
	var points codec.Points
	sums := ShardInfo{}
	series, begun := uint32(0), false
	for {
		if err := w.next(); err != nil {
			return err
		}
		if w.done {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		points.Reset()
		if err := w.points(&points); err != nil {
			return err
		}
		if !begun || w.id() != series {
			sums.Series++
		}
		series, begun = w.id(), true
		sums.Blocks++
		sums.Samples += int64(points.Len())
		sums.Digest += DigestPoints(series, &points)
	}
	return r.mapping.Guard(func(b []byte) error {
		e := &r.shards[n]
		s, err := r.sectionAt(b, n)
		if err != nil {
			return err
		}
		if sums.Series != e.Series || sums.Blocks != e.Blocks || sums.Samples != e.Samples || sums.Digest != e.Digest {
			return s.corrupt(PartDigest, 0, 0, fmt.Sprintf("%d series, %d blocks, %d samples with digest %016x, not %d, %d, %d with %016x",
				sums.Series, sums.Blocks, sums.Samples, sums.Digest, e.Series, e.Blocks, e.Samples, e.Digest))
		}
		if err := verifyRollups(&s); err != nil {
			return err
		}
		return verifyDayDigests(&s)
	})
}

// verifyDayDigests reads all day digests of a shard, and compares the number of samples.
func verifyDayDigests(s *section) error {
	pages, err := s.digestPages()
	if err != nil {
		return err
	}
	samples := int64(0)
	list, id := newDayDigestList(s.reader.meta.Partition), uint32(0)
	for n := range pages.len() {
		e := pages.at(n)
		var page pageReader
		if err := s.page(&page, &e, pageDayDigests); err != nil {
			return err
		}
		ok, reason := page.next()
		for ; ok; ok, reason = page.next() {
			if page.id != id {
				list, id = newDayDigestList(s.reader.meta.Partition), page.id
			}
			list.open(page.body)
			day, wrong := list.next()
			for ; day; day, wrong = list.next() {
				samples += list.day.samples
			}
			if wrong != "" {
				return s.corrupt(PartRollups, page.id, e.offset, wrong)
			}
		}
		if reason != "" {
			return s.corrupt(PartRollups, page.id, e.offset, reason)
		}
	}
	if s.reader.meta.DayDigests && samples != s.Samples {
		return s.corrupt(PartRollups, 0, int64(len(s.data)), fmt.Sprintf("day digests of %d samples, not %d", samples, s.Samples))
	}
	return nil
}

// verifyRollups reads all rollups of a shard.
func verifyRollups(s *section) error {
	pages := s.pages(pageRollup)
	for n := range pages.len() {
		e := pages.at(n)
		var page pageReader
		if err := s.page(&page, &e, pageRollup); err != nil {
			return err
		}
		ok, reason := page.next()
		for ; ok; ok, reason = page.next() {
			for _, width := range [...]int64{HourMs, DayMs} {
				q := rollupQuery{toMs: -1, widthMs: width} // an empty range: nothing is kept
				if reason = q.readBody(page.body, &s.reader.meta); reason != "" {
					return s.corrupt(PartRollups, page.id, e.offset, reason)
				}
			}
		}
		if reason != "" {
			return s.corrupt(PartRollups, page.id, e.offset, reason)
		}
	}
	return nil
}
