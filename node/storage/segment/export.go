package segment

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Verify reads all blocks, index pages, rollup pages and day digests, compares the
// samples of each shard with its digest, and those of each day of a series with the day's.
// It returns the first error: a *CorruptError, a *vfs.FaultError or that of the context.
// One with PartDayDigests means that all else is as it was written.
func (r *Reader) Verify(ctx context.Context) error {
	var digests error
	for n := range r.meta.Shards {
		v := shardVerifier{days: dayDigestWalker{reader: r, shardAt: n, at: -1}}
		if err := v.verify(ctx, r, n); err != nil {
			return err
		}
		if digests == nil {
			digests = v.digests
		}
	}
	return digests
}

// shardVerifier reads all of one shard.
type shardVerifier struct {
	sums    ShardInfo
	id      uint32 // of the series that is read; none before the first block
	day     dayDigest
	days    dayDigestWalker
	digests error // the first one about day digests
}

func (v *shardVerifier) verify(ctx context.Context, r *Reader, n int) error {
	var w walker
	w.start(r, n, n+1)
	var points codec.Points
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
		v.add(w.id(), &points)
	}
	v.endDay()
	if v.digests == nil {
		v.digests = v.days.end()
	}
	return r.mapping.Guard(func(b []byte) error {
		sums, e := &v.sums, &r.shards[n]
		s, err := r.sectionAt(b, n)
		if err != nil {
			return err
		}
		if sums.Series != e.Series || sums.Blocks != e.Blocks || sums.Samples != e.Samples || sums.Digest != e.Digest {
			return s.corrupt(PartDigest, 0, 0, fmt.Sprintf("%d series, %d blocks, %d samples with digest %016x, not %d, %d, %d with %016x",
				sums.Series, sums.Blocks, sums.Samples, sums.Digest, e.Series, e.Blocks, e.Samples, e.Digest))
		}
		return verifyRollups(&s)
	})
}

// add takes the samples of the next block.
func (v *shardVerifier) add(id uint32, points *codec.Points) {
	if v.sums.Blocks == 0 || id != v.id {
		v.endDay()
		v.id = id
		v.sums.Series++
	}
	v.sums.Blocks++
	v.sums.Samples += int64(points.Len())
	v.sums.Digest += DigestPoints(id, points)
	if !v.days.reader.meta.DayDigests {
		return
	}
	for times, values := points.Times, points.Values; len(times) > 0; {
		startMs := floorTo(times[0], DayMs)
		if startMs != v.day.startMs {
			v.endDay()
			v.day.startMs = startMs
		}
		n := max(1, hourEnd(times, startMs+DayMs)) // at the end of time the sum wraps around
		v.day.samples += int64(n)
		v.day.sum += scan.DigestSamples(times[:n], values[:n])
		times, values = times[n:], values[n:]
	}
}

// endDay compares the day that is read with its recorded digest.
func (v *shardVerifier) endDay() {
	if v.day.samples > 0 && v.digests == nil {
		v.digests = v.days.compare(v.id, &v.day)
	}
	v.day = dayDigest{}
}

// verifyRollups reads all rollups of a shard.
func verifyRollups(s *section) error {
	for _, kind := range [...]pageKind{pageRollup, pageDayRollups, pageHourEnds} {
		pages, err := s.pagesOf(kind)
		if err != nil {
			return err
		}
		for n := range pages.len() {
			e := pages.at(n)
			if err := verifyRollupPage(s, &e, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func verifyRollupPage(s *section, e *pageEntry, kind pageKind) error {
	var page pageReader
	if err := s.page(&page, e, kind); err != nil {
		return err
	}
	ok, reason := page.next()
	for ; ok; ok, reason = page.next() {
		if reason = verifyRollupBody(page.body, kind, &s.reader.meta); reason != "" {
			break
		}
	}
	if reason != "" {
		return s.corrupt(PartRollups, page.id, e.offset, reason)
	}
	return nil
}

// verifyRollupBody reads an entry of a page of some kind of rollups.
func verifyRollupBody(body []byte, kind pageKind, m *Meta) (reason string) {
	if kind == pageHourEnds {
		_, reason = setHourEnds(nil, body, m.Partition)
		return reason
	}
	for _, width := range [...]int64{HourMs, DayMs} {
		q := rollupQuery{toMs: -1, widthMs: width} // an empty range: nothing is kept
		if reason = q.readBody(body, kind, m); reason != "" {
			return reason
		}
	}
	return ""
}
