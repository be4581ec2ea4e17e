package segment

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// The ends of an hour are its first and its last sample other than NaN. Every hour that has a rollup has them, in
// pages of their own: queries for sums or extremes need not read them, and older programs, which do not know them,
// pass them over.

// What else the head of a record tells, besides the time of the first sample.
const (
	hourAfterGap      = 1 << 0 // hours lie between it and the record before
	hourOfOtherLength = 1 << 1 // from its first to its last sample it is not as long as in the record before
)

// appendHourEnds appends the body of an entry, which ends with its last record.
func appendHourEnds(dst []byte, hours []rollupRecord, originMs int64) []byte {
	scale := commonScale(hours, func(r *rollupRecord) [3]series.Number { return [3]series.Number{r.first, r.last, r.last} })
	dst = append(dst, scale)
	previousMs := originMs - HourMs
	var firstMs, lengthMs, last int64
	for i := range hours {
		r := &hours[i]
		gap := uint64(r.startMs-previousMs)/uint64(HourMs) - 1
		moved, grown := r.firstMs-r.startMs-firstMs, r.lastMs-r.firstMs-lengthMs
		previousMs, firstMs, lengthMs = r.startMs, r.firstMs-r.startMs, r.lastMs-r.firstMs
		code := len(indexUnits) - 1
		for moved%indexUnits[code] != 0 || grown%indexUnits[code] != 0 {
			code--
		}
		head := zigzag(moved/indexUnits[code])<<4 | uint64(code)<<2
		if gap > 0 {
			head |= hourAfterGap
		}
		if grown != 0 {
			head |= hourOfOtherLength
		}
		dst = binary.AppendUvarint(dst, head)
		if gap > 0 {
			dst = binary.AppendUvarint(dst, gap)
		}
		if grown != 0 {
			dst = binary.AppendVarint(dst, grown/indexUnits[code])
		}
		if scale > series.ScaleMax {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.first.Float64()))
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.last.Float64()))
			continue
		}
		begin, end := rescaled(r.first, scale), rescaled(r.last, scale)
		dst = binary.AppendVarint(dst, begin-last)
		dst = binary.AppendVarint(dst, end-begin)
		last = end
	}
	return dst
}

// hourEndsList reads the body of an entry.
type hourEndsList struct {
	rest       []byte
	scale      uint8
	originMs   int64
	windowNext uint64 // number, from the origin on, of the hour that a gap of 0 means
	windowMax  uint64 // the last one of the partition
	firstMs    int64  // of the last record, after the start of its hour
	lengthMs   int64  // from its first to its last sample
	first      int64
	last       int64
}

// openHourEnds begins the body of an entry.
func openHourEnds(body []byte, p Partition) (l hourEndsList, ok bool) {
	if len(body) == 0 || body[0] > series.ScaleMax && body[0] != series.ScaleFloat {
		return l, false
	}
	originMs := floorTo(p.StartMs, HourMs)
	return hourEndsList{
		rest: body[1:], scale: body[0], originMs: originMs,
		windowMax: (uint64(p.EndMs-1) - uint64(originMs)) / uint64(HourMs),
	}, true
}

// next returns the ends of the next hour and its start. At the end ok is false, and whole says
// whether the list was well-formed.
func (l *hourEndsList) next() (startMs int64, e Ends, ok, whole bool) {
	if len(l.rest) == 0 {
		return 0, e, false, true
	}
	head, ok := l.uvarint()
	gap, grown := uint64(0), int64(0)
	if ok && head&hourAfterGap != 0 {
		gap, ok = l.uvarint()
	}
	if ok && head&hourOfOtherLength != 0 {
		grown, ok = l.varint()
	}
	if !ok || l.windowNext > l.windowMax || gap > l.windowMax-l.windowNext {
		return 0, e, false, false
	}
	startMs = l.originMs + int64(l.windowNext+gap)*HourMs
	l.windowNext += gap + 1
	unit := indexUnits[head>>2&3]
	l.firstMs, ok = movedWithin(l.firstMs, unzigzag(head>>4), unit, HourMs)
	if ok {
		l.lengthMs, ok = movedWithin(l.lengthMs, grown, unit, HourMs-l.firstMs)
	}
	if ok {
		e.FirstMs, e.LastMs = startMs+l.firstMs, startMs+l.firstMs+l.lengthMs
		e.First, e.Last, ok = l.values()
	}
	return startMs, e, ok, ok
}

// movedWithin adds a number of units of time to a time of an hour, and reports whether that lies in [0, endMs).
func movedWithin(ms, units, unit, endMs int64) (moved int64, ok bool) {
	if units > HourMs/unit || units < -HourMs/unit {
		return 0, false
	}
	ms += units * unit
	return ms, ms >= 0 && ms < endMs
}

func (l *hourEndsList) values() (first, last float64, ok bool) {
	if l.scale > series.ScaleMax {
		if len(l.rest) < 16 {
			return 0, 0, false
		}
		first = math.Float64frombits(binary.LittleEndian.Uint64(l.rest))
		last = math.Float64frombits(binary.LittleEndian.Uint64(l.rest[8:]))
		l.rest = l.rest[16:]
		return first, last, true
	}
	moved, ok1 := l.varint()
	grown, ok2 := l.varint()
	l.first = l.last + moved
	l.last = l.first + grown
	return series.Float64(l.first, l.scale), series.Float64(l.last, l.scale), ok1 && ok2
}

func (l *hourEndsList) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(l.rest)
	if n <= 0 {
		return 0, false
	}
	l.rest = l.rest[n:]
	return v, true
}

func (l *hourEndsList) varint() (int64, bool) {
	u, ok := l.uvarint()
	return unzigzag(u), ok
}

// setHourEnds sets the ends of the first of some hours, as far as an entry has them, and returns the number of these. It
// reads all of the entry.
func setHourEnds(hours []Rollup, body []byte, p Partition) (n int, reason string) {
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
		case n == len(hours), startMs < hours[n].StartMs:
			continue
		case startMs > hours[n].StartMs:
			return n, "no ends of an hour"
		}
		h := &hours[n]
		if !(h.Min <= ends.First && ends.First <= h.Max && h.Min <= ends.Last && ends.Last <= h.Max) {
			return n, "ends beyond the extremes of an hour"
		}
		h.Ends = ends
		n++
	}
}
