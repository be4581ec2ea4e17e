package segment

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// appendRollups appends one list of rollups: the number of records, their length
// in bytes, and, if there are any, their common scale and the records, with their ends or
// without.
func appendRollups(dst []byte, records []rollupRecord, originMs, widthMs int64, ends bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	if len(records) == 0 {
		return dst
	}
	dst = append(dst, 0, 0)
	start := len(dst)
	scale := commonScale(records, func(r *rollupRecord) [3]series.Number { return [3]series.Number{r.min, r.max, r.sum} })
	dst = append(dst, scale)
	previousMs := originMs - widthMs
	var count, low, firstMs int64
	for i := range records {
		r := &records[i]
		gap := uint64(r.startMs-previousMs)/uint64(widthMs) - 1
		previousMs = r.startMs
		if r.count == count {
			dst = binary.AppendUvarint(dst, gap<<1)
		} else {
			dst = binary.AppendUvarint(dst, gap<<1|1)
			dst = binary.AppendUvarint(dst, uint64(r.count))
			count = r.count
		}
		if ends {
			dst = appendEndTimes(dst, r, firstMs)
			firstMs = r.firstMs - r.startMs
		}
		if scale > series.ScaleMax {
			dst = appendFloats(dst, r, ends)
			continue
		}
		least, most, sum := rescaled(r.min, scale), rescaled(r.max, scale), rescaled(r.sum, scale)
		dst = binary.AppendVarint(dst, least-low)
		dst = binary.AppendUvarint(dst, uint64(most-least))
		dst = binary.AppendVarint(dst, sum-predictedSum(count, least, most))
		// How the sum of floats differs from that of decimals: mostly by a few last bits.
		dst = binary.AppendVarint(dst, int64(math.Float64bits(r.scanSum)-math.Float64bits(series.Float64(sum, scale))))
		if ends {
			dst = binary.AppendUvarint(dst, uint64(rescaled(r.first, scale)-least))
			dst = binary.AppendUvarint(dst, uint64(most-rescaled(r.last, scale)))
		}
		low = least
	}
	binary.LittleEndian.PutUint16(dst[start-2:], uint16(len(dst)-start)) // pieceHours bounds it
	return dst
}

func appendFloats(dst []byte, r *rollupRecord, ends bool) []byte {
	for _, v := range [...]float64{r.min.Float64(), r.max.Float64(), r.scanSum} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	if ends {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.first.Float64()))
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.last.Float64()))
	}
	return dst
}

// appendEndTimes appends the times of first, last, least and greatest value. The first one is
// told against that of the record before, as it mostly lies at the same place of a window.
func appendEndTimes(dst []byte, r *rollupRecord, previousFirstMs int64) []byte {
	after := [...]uint64{uint64(r.lastMs - r.firstMs), uint64(r.minMs - r.firstMs), uint64(r.maxMs - r.firstMs)}
	code := len(indexUnits) - 1
	for _, ms := range after {
		for ms%uint64(indexUnits[code]) != 0 {
			code--
		}
	}
	moved := r.firstMs - r.startMs - previousFirstMs
	dst = binary.AppendUvarint(dst, zigzag(moved)<<2|uint64(code))
	for _, ms := range after {
		dst = binary.AppendUvarint(dst, ms/uint64(indexUnits[code]))
	}
	return dst
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// predictedSum is the sum of count samples with the mean halfway between least
// and most. It wraps around in the same way for writer and reader.
func predictedSum(count, least, most int64) int64 {
	return count * (least + (most-least)/2)
}

// commonScale returns the scale at which some numbers of all records are exact decimals, or
// series.ScaleFloat.
func commonScale(records []rollupRecord, numbers func(*rollupRecord) [3]series.Number) (scale uint8) {
	for i := range records {
		for _, n := range numbers(&records[i]) {
			scale = max(scale, n.Scale)
		}
	}
	if scale > series.ScaleMax {
		return series.ScaleFloat
	}
	for i := range records {
		for _, n := range numbers(&records[i]) {
			m := n.Mantissa
			if !mulWithin(&m, powerOf10(scale-n.Scale), series.MantissaMax) {
				return series.ScaleFloat
			}
		}
	}
	return scale
}

func rescaled(n series.Number, scale uint8) int64 {
	return n.Mantissa * powerOf10(scale-n.Scale)
}

// rollupList reads one list of rollups.
type rollupList struct {
	rest       []byte
	left       uint64
	scanSums   bool // records tell the sums of floats
	ends       bool // and first and last value, and times
	scale      uint8
	originMs   int64
	widthMs    int64
	windowNext uint64 // number, from the origin on, of the one that a gap of 0 means
	windowMax  uint64 // the last one of the partition
	count      int64
	low        int64
	most       int64 // of the last rollup of decimals,
	total      int64 // and its sum
	firstMs    int64 // after the start of the window
}

// cutRollups splits the first list from b.
func cutRollups(b []byte, p Partition, widthMs int64, scanSums bool) (list rollupList, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 {
		return list, nil, false
	}
	b = b[used:]
	if n == 0 {
		return list, b, true
	}
	if len(b) < 2 {
		return list, nil, false
	}
	length := int(binary.LittleEndian.Uint16(b))
	b = b[2:]
	if length < 1 || length > len(b) {
		return list, nil, false
	}
	originMs := floorTo(p.StartMs, widthMs)
	return rollupList{
		rest: b[1:length], left: n, scanSums: scanSums, scale: b[0], originMs: originMs, widthMs: widthMs,
		windowMax: (uint64(p.EndMs-1) - uint64(originMs)) / uint64(widthMs),
	}, b[length:], b[0] <= series.ScaleMax || b[0] == series.ScaleFloat
}

// next returns the next rollup. At the end ok is false, and whole says whether
// the list was well-formed.
func (l *rollupList) next() (r Rollup, ok, whole bool) {
	if l.left == 0 {
		return r, false, len(l.rest) == 0
	}
	l.left--
	gap, n := binary.Uvarint(l.rest)
	if n <= 0 || l.windowNext > l.windowMax || gap>>1 > l.windowMax-l.windowNext {
		return r, false, false
	}
	b := l.rest[n:]
	r.StartMs = l.originMs + int64(l.windowNext+gap>>1)*l.widthMs
	l.windowNext += gap>>1 + 1
	if gap&1 != 0 {
		count, n := binary.Uvarint(b)
		if n <= 0 || count > math.MaxInt64 {
			return r, false, false
		}
		b = b[n:]
		l.count = int64(count)
	}
	if r.Count = l.count; r.Count == 0 {
		return r, false, false
	}
	if l.ends {
		if b, whole = l.endTimes(&r, b); !whole {
			return r, false, false
		}
	}
	if l.scale > series.ScaleMax {
		whole = l.floats(&r, b)
	} else {
		whole = l.decimals(&r, b)
	}
	return r, whole, whole
}

// endTimes reads the times of first, last, least and greatest value, which lie in the window.
func (l *rollupList) endTimes(r *Rollup, b []byte) (rest []byte, ok bool) {
	head, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, false
	}
	b = b[n:]
	l.firstMs += unzigzag(head >> 2)
	if l.firstMs < 0 || l.firstMs >= l.widthMs {
		return nil, false
	}
	unit, left := uint64(indexUnits[head&3]), uint64(l.widthMs-1-l.firstMs)
	r.FirstMs = r.StartMs + l.firstMs
	for i, at := range [...]*int64{&r.LastMs, &r.MinMs, &r.MaxMs} {
		units, n := binary.Uvarint(b)
		if n <= 0 || units > left/unit {
			return nil, false
		}
		b = b[n:]
		*at = r.FirstMs + int64(units*unit)
		if i == 0 {
			left = units * unit // the extremes come no later
		}
	}
	return b, true
}

func (l *rollupList) floats(r *Rollup, b []byte) (ok bool) {
	values := [...]*float64{&r.Min, &r.Max, &r.Sum, &r.First, &r.Last}
	n := len(values)
	if !l.ends {
		n -= 2
	}
	if len(b) < 8*n {
		return false
	}
	for i, v := range values[:n] {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	l.rest = b[8*n:]
	return true
}

func (l *rollupList) decimals(r *Rollup, b []byte) (ok bool) {
	least, n1 := binary.Varint(b)
	if n1 <= 0 {
		return false
	}
	width, n2 := binary.Uvarint(b[n1:])
	if n2 <= 0 {
		return false
	}
	residual, n3 := binary.Varint(b[n1+n2:])
	if n3 <= 0 {
		return false
	}
	b = b[n1+n2+n3:]
	var difference int64
	if l.scanSums {
		if difference, n1 = binary.Varint(b); n1 <= 0 {
			return false
		}
		b = b[n1:]
	}
	l.rest = b
	l.low += least
	most := l.low + int64(width)
	r.Min, r.Max = series.Float64(l.low, l.scale), series.Float64(most, l.scale)
	l.most, l.total = most, predictedSum(l.count, l.low, most)+residual
	sum := series.Float64(l.total, l.scale)
	r.Sum = math.Float64frombits(math.Float64bits(sum) + uint64(difference))
	return !l.ends || l.endDecimals(r, most)
}

// endDecimals reads the first and the last value, which lie between least and most.
func (l *rollupList) endDecimals(r *Rollup, most int64) (ok bool) {
	above, n := binary.Uvarint(l.rest)
	if n <= 0 {
		return false
	}
	below, m := binary.Uvarint(l.rest[n:])
	if width := uint64(most - l.low); m <= 0 || above > width || below > width {
		return false
	}
	l.rest = l.rest[n+m:]
	r.First, r.Last = series.Float64(l.low+int64(above), l.scale), series.Float64(most-int64(below), l.scale)
	return true
}
