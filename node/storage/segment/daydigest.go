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

// dayDigestList reads the body of an entry.
type dayDigestList struct {
	rest []byte
	day  dayDigest
}

func dayDigestsOf(body []byte, originMs int64) dayDigestList {
	return dayDigestList{rest: body, day: dayDigest{startMs: originMs - DayMs}}
}

// next moves to the next digest. The reason says what is wrong with the body.
func (l *dayDigestList) next() (ok bool, reason string) {
	const wrong = "record of a day's digest"
	if len(l.rest) == 0 {
		return false, ""
	}
	gap, n := binary.Uvarint(l.rest)
	if n <= 0 || gap>>1 > rollupGapMax/24 {
		return false, wrong
	}
	l.rest = l.rest[n:]
	l.day.startMs += (int64(gap>>1) + 1) * DayMs
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
	before, originMs := len(dst), floorTo(r.meta.StartMs, DayMs)
	err := r.eachBody(pageDayDigests, shard, id, fromMs, toMs, func(body []byte) (reason string) {
		list := dayDigestsOf(body, originMs)
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
