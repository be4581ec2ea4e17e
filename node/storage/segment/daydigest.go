package segment

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A day digest is recorded beside the rollups for each day of a series: the number of its
// samples and their scan.DigestSamples, NaN included. So a backup learns what has changed
// without reading what has not.

// dayDigest is the digest of the samples that a segment has of one day of a series.
type dayDigest struct {
	startMs, samples int64
	sum              uint64
}

// pieceDays is the number of days after which a series' digests are cut into entries.
const pieceDays = 128

// appendDayDigests appends the body of an entry, which ends with its last record.
func appendDayDigests(dst []byte, days []dayDigest, originMs int64) []byte {
	previousMs, samples := originMs-DayMs, int64(0)
	for i := range days {
		d := &days[i]
		gap := uint64(d.startMs-previousMs)/uint64(DayMs) - 1
		previousMs = d.startMs
		if d.samples == samples {
			dst = binary.AppendUvarint(dst, gap<<1)
		} else {
			dst = binary.AppendUvarint(dst, gap<<1|1)
			dst = binary.AppendUvarint(dst, uint64(d.samples))
			samples = d.samples
		}
		dst = binary.LittleEndian.AppendUint64(dst, d.sum)
	}
	return dst
}

// dayDigestList reads the bodies of a series' entries, one after the other. Days count from the
// first one of the partition: so they are compared, at any time that there is.
type dayDigestList struct {
	originMs int64
	dayMax   uint64 // the last one of the partition
	dayMin   uint64 // of the next record: days grow, from entry to entry, too
	dayNext  uint64 // that a gap of 0 means
	rest     []byte
	day      dayDigest
}

// newDayDigestList returns a list for the entries of one series, without a body yet.
func newDayDigestList(p Partition) dayDigestList {
	originMs := floorTo(p.StartMs, DayMs)
	return dayDigestList{originMs: originMs, dayMax: (uint64(p.EndMs-1) - uint64(originMs)) / uint64(DayMs)}
}

// open begins the next body.
func (l *dayDigestList) open(body []byte) {
	l.rest, l.dayNext, l.day = body, 0, dayDigest{}
}

// next moves to the next digest of the body. The reason says what is wrong with it.
func (l *dayDigestList) next() (ok bool, reason string) {
	const wrong = "record of a day's digest"
	if len(l.rest) == 0 {
		return false, ""
	}
	gap, n := binary.Uvarint(l.rest)
	if n <= 0 {
		return false, wrong
	}
	l.rest = l.rest[n:]
	if l.dayNext > l.dayMax || gap>>1 > l.dayMax-l.dayNext {
		return false, "a day's digest outside of the partition"
	}
	day := l.dayNext + gap>>1
	if day < l.dayMin {
		return false, "order of days' digests"
	}
	l.dayNext, l.dayMin = day+1, day+1
	l.day.startMs = l.originMs + int64(day)*DayMs
	if gap&1 != 0 {
		samples, n := binary.Uvarint(l.rest)
		if n <= 0 || samples > math.MaxInt64 {
			return false, wrong
		}
		l.rest, l.day.samples = l.rest[n:], int64(samples)
	}
	if l.day.samples == 0 || len(l.rest) < 8 {
		return false, wrong
	}
	l.day.sum, l.rest = binary.LittleEndian.Uint64(l.rest), l.rest[8:]
	return true, ""
}

// DayDigests appends the digests of a series' days that start in [fromMs, toMs] to dst, in
// order: start, number and digest of the samples, NaN included, of this segment only, see
// ExactSpans.Find. A segment without them (Meta.DayDigests) has none. Errors are
// *CorruptError and *vfs.FaultError; dst is then as before.
func (r *Reader) DayDigests(dst []Rollup, shard uint16, id uint32, fromMs, toMs int64) ([]Rollup, error) {
	before, list := len(dst), newDayDigestList(r.meta.Partition)
	err := r.eachBody(pageDayDigests, shard, id, fromMs, toMs, func(body []byte) (reason string) {
		list.open(body)
		ok, reason := list.next()
		for ; ok; ok, reason = list.next() {
			if d := &list.day; d.startMs >= fromMs && d.startMs <= toMs {
				dst = append(dst, Rollup{StartMs: d.startMs, Count: d.samples, Digest: d.sum})
			}
		}
		return reason
	})
	if err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// dayDigestWalker visits all day digests of a shard, in order of (id, day). It reads one page
// at a time.
type dayDigestWalker struct {
	reader  *Reader
	shardAt int     // number of the section
	section section // or none yet
	pageAt  int     // the next page of the section
	offset  int64   // of the page, or of the end
	list    dayDigestList
	ids     []uint32 // of the page's digests
	days    []dayDigest
	at      int // of the current digest
}

// next moves to the next digest, if there is one.
func (w *dayDigestWalker) next() (ok bool, err error) {
	if w.at+1 < len(w.days) {
		w.at++
		return true, nil
	}
	id := uint32(0) // of the last digest, whose entries may go on
	if len(w.ids) > 0 {
		id = w.ids[len(w.ids)-1]
	} else {
		w.list = newDayDigestList(w.reader.meta.Partition)
	}
	w.ids, w.days, w.at = w.ids[:0], w.days[:0], 0
	err = w.reader.mapping.Guard(func(b []byte) error { return w.load(b, id) })
	return err == nil && len(w.days) > 0, err
}

// load reads the next page that has digests.
func (w *dayDigestWalker) load(b []byte, id uint32) (err error) {
	if w.section.reader == nil {
		if w.section, err = w.reader.sectionAt(b, w.shardAt); err != nil {
			return err
		}
	}
	s := &w.section
	pages, err := s.digestPages()
	if err != nil {
		return err
	}
	for ; len(w.days) == 0 && w.pageAt < pages.len(); w.pageAt++ {
		e := pages.at(w.pageAt)
		var page pageReader
		if err := s.page(&page, &e, pageDayDigests); err != nil {
			return err
		}
		w.offset = e.offset
		ok, reason := page.next()
		for ; ok; ok, reason = page.next() {
			if page.id != id {
				w.list, id = newDayDigestList(s.reader.meta.Partition), page.id
			}
			if reason = w.take(id, page.body); reason != "" {
				break
			}
		}
		if reason != "" {
			return s.corrupt(PartDayDigests, page.id, e.offset, reason)
		}
	}
	return nil
}

func (w *dayDigestWalker) take(id uint32, body []byte) (reason string) {
	w.list.open(body)
	ok, reason := w.list.next()
	for ; ok; ok, reason = w.list.next() {
		w.ids, w.days = append(w.ids, id), append(w.days, w.list.day)
	}
	return reason
}

// compare moves to the next digest, which should be that of a day.
func (w *dayDigestWalker) compare(id uint32, day *dayDigest) error {
	ok, err := w.next()
	if err == nil && (!ok || w.ids[w.at] != id || w.days[w.at] != *day) {
		err = w.section.corrupt(PartDayDigests, id, w.offset, fmt.Sprintf(
			"no digest of %d samples of the day from %d ms on, %016x, in its place", day.samples, day.startMs, day.sum))
	}
	return err
}

// end returns an error if there is another digest.
func (w *dayDigestWalker) end() error {
	ok, err := w.next()
	if ok {
		d := &w.days[w.at]
		err = w.section.corrupt(PartDayDigests, w.ids[w.at], w.offset, fmt.Sprintf(
			"digest of %d samples of the day from %d ms on, which has none", d.samples, d.startMs))
	}
	return err
}
