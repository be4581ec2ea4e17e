package segment

import (
	"encoding/binary"
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
// ExactSpans.Find. A segment without them (Meta.DayDigests) gives none. Errors are
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
