package segment

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// appendRollups appends one list of rollups: the number of records, their length
// in bytes, and, if there are any, their common scale and the records.
func appendRollups(dst []byte, records []rollupRecord, originMs, widthMs int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	if len(records) == 0 {
		return dst
	}
	dst = append(dst, 0, 0)
	start := len(dst)
	scale := commonScale(records)
	dst = append(dst, scale)
	previousMs := originMs - widthMs
	var count, low int64
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
		if scale > series.ScaleMax {
			dst = appendFloats(dst, r)
			continue
		}
		least, most, sum := rescaled(r.min, scale), rescaled(r.max, scale), rescaled(r.sum, scale)
		dst = binary.AppendVarint(dst, least-low)
		dst = binary.AppendUvarint(dst, uint64(most-least))
		dst = binary.AppendVarint(dst, sum-predictedSum(count, least, most))
		// How the sum of floats differs from that of decimals: mostly by a few last bits.
		dst = binary.AppendVarint(dst, int64(math.Float64bits(r.scanSum)-math.Float64bits(series.Float64(sum, scale))))
		low = least
	}
	binary.LittleEndian.PutUint16(dst[start-2:], uint16(len(dst)-start)) // pieceHours bounds it
	return dst
}

func appendFloats(dst []byte, r *rollupRecord) []byte {
	for _, v := range [...]float64{r.min.Float64(), r.max.Float64(), r.scanSum} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// predictedSum is the sum of count samples with the mean halfway between least
// and most. It wraps around in the same way for writer and reader.
func predictedSum(count, least, most int64) int64 {
	return count * (least + (most-least)/2)
}

// commonScale returns the scale at which all numbers are exact decimals, or
// series.ScaleFloat.
func commonScale(records []rollupRecord) (scale uint8) {
	for i := range records {
		r := &records[i]
		scale = max(scale, r.min.Scale, r.max.Scale, r.sum.Scale)
	}
	if scale > series.ScaleMax {
		return series.ScaleFloat
	}
	for i := range records {
		r := &records[i]
		for _, n := range [...]series.Number{r.min, r.max, r.sum} {
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
	rest     []byte
	left     uint64
	scanSums bool // records tell the sums of floats
	scale    uint8
	startMs  int64
	widthMs  int64
	count    int64
	low      int64
}

// cutRollups splits the first list from b.
func cutRollups(b []byte, originMs, widthMs int64, scanSums bool) (list rollupList, rest []byte, ok bool) {
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
	return rollupList{
		rest: b[1:length], left: n, scanSums: scanSums, scale: b[0], startMs: originMs - widthMs, widthMs: widthMs,
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
	if n <= 0 || gap>>1 > rollupGapMax {
		return r, false, false
	}
	b := l.rest[n:]
	l.startMs += (int64(gap>>1) + 1) * l.widthMs
	if gap&1 != 0 {
		count, n := binary.Uvarint(b)
		if n <= 0 || count == 0 || count > math.MaxInt64 {
			return r, false, false
		}
		b = b[n:]
		l.count = int64(count)
	}
	r.StartMs, r.Count = l.startMs, l.count
	if l.scale > series.ScaleMax {
		if len(b) < 24 {
			return r, false, false
		}
		r.Min = math.Float64frombits(binary.LittleEndian.Uint64(b))
		r.Max = math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))
		r.Sum = math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))
		l.rest = b[24:]
		return r, true, true
	}
	least, n1 := binary.Varint(b)
	if n1 <= 0 {
		return r, false, false
	}
	width, n2 := binary.Uvarint(b[n1:])
	if n2 <= 0 {
		return r, false, false
	}
	residual, n3 := binary.Varint(b[n1+n2:])
	if n3 <= 0 {
		return r, false, false
	}
	b = b[n1+n2+n3:]
	var difference int64
	if l.scanSums {
		if difference, n = binary.Varint(b); n <= 0 {
			return r, false, false
		}
		b = b[n:]
	}
	l.rest = b
	l.low += least
	most := l.low + int64(width)
	r.Min, r.Max = series.Float64(l.low, l.scale), series.Float64(most, l.scale)
	sum := series.Float64(predictedSum(l.count, l.low, most)+residual, l.scale)
	r.Sum = math.Float64frombits(math.Float64bits(sum) + uint64(difference))
	return r, true, true
}

// rollupGapMax bounds the hours between two records, so that times stay within
// range whatever the bytes are.
const rollupGapMax = 1 << 40
