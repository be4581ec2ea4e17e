package codec

import "encoding/binary"

// columnDecoder reads columns. It is scratch memory, ready when zero.
type columnDecoder struct {
	entropy entropyDecoder
}

// reader walks bytes; the first error sticks. Its bytes are followed by
// unpackSlack more that may be read but mean nothing.
type reader struct {
	bytes []byte
	at    int
	bad   bool
}

func (r *reader) uvarint() uint64 {
	if r.at < len(r.bytes) && r.bytes[r.at] < 0x80 {
		r.at++
		return uint64(r.bytes[r.at-1])
	}
	v, used := binary.Uvarint(r.bytes[min(r.at, len(r.bytes)):])
	if used <= 0 {
		r.bad = true
		return 0
	}
	r.at += used
	return v
}

func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) byte() byte {
	if r.at >= len(r.bytes) {
		r.bad = true
		return 0
	}
	r.at++
	return r.bytes[r.at-1]
}

// take returns the next n bytes; what follows them may be read too.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.bytes)-r.at {
		r.bad = true
		return nil
	}
	r.at += n
	return r.bytes[r.at-n:]
}

// decode fills values[:count]; values is count rounded up to a multiple of 8.
func (d *columnDecoder) decode(r *reader, values []int64, count int) error {
	start := r.at
	flags := r.byte()
	order, shift := int(flags&orderMask), uint(0)
	if flags&columnShifted != 0 {
		shift = uint(r.byte())
	}
	var first [2]int64
	switch order {
	case order1:
		first[0] = r.varint()
	case order2:
		first[0], first[1] = r.varint(), r.varint()
	}
	base := r.varint()
	if r.bad || flags&columnUnknown != 0 || shift > 63 || order > order2 || count < order {
		return corrupt("head of a column", start)
	}
	width, ok := d.unpack(r, values, count, flags)
	if !ok {
		return corrupt("packed values", start)
	}
	values = values[:count]
	if width != 0 || flags&columnPatched != 0 {
		accumulate(values, order, first, base, shift)
		return nil
	}
	// All residuals are the same.
	switch order {
	case order1:
		fillLine(values, first[0], base)
	default:
		accumulate(values, order, first, base, shift)
	}
	return nil
}

func fillLine(values []int64, at, step int64) {
	for i := range values {
		values[i] = at
		at += step
	}
}

// unpack fills values with what was packed, exceptions included, and gives the
// width, or 64 for several.
func (d *columnDecoder) unpack(r *reader, values []int64, count int, flags byte) (width uint, ok bool) {
	switch {
	case flags&columnHuffman != 0:
		width = uint(r.byte())
		if width == 0 || width > 64 || flags&columnGrouped != 0 || !d.unpackEntropy(r, values, count, width) {
			return 0, false
		}
	case flags&columnGrouped != 0:
		widths := r.take((count + groupValues - 1) / groupValues)
		if r.bad {
			return 0, false
		}
		widths = widths[:(count+groupValues-1)/groupValues]
		for g, w := range widths {
			n := min(groupValues, count-g*groupValues)
			packed := r.take(packedBytes(n, uint(w)))
			if r.bad || w > 64 {
				return 0, false
			}
			unpack(values[g*groupValues:min(len(values), (g+1)*groupValues)], packed[:len(packed)+unpackSlack], uint(w))
		}
		return 64, flags&columnPatched == 0 || patch(r, values[:count], widths)
	default:
		width = uint(r.byte())
		packed := r.take(packedBytes(count, width))
		if r.bad || width > 64 {
			return 0, false
		}
		if width == 0 && flags&columnPatched == 0 {
			if flags&orderMask != order1 {
				clear(values)
			}
			return 0, true
		}
		unpack(values, packed[:len(packed)+unpackSlack], width)
	}
	return width, flags&columnPatched == 0 || patch(r, values[:count], []uint8{uint8(width)})
}

func (d *columnDecoder) unpackEntropy(r *reader, values []int64, count int, width uint) bool {
	length := r.uvarint()
	if r.bad || length > uint64(len(r.bytes)-r.at) {
		return false
	}
	coded := r.take(int(length))[:length]
	low := width - min(width, symbolBits)
	packed := r.take(packedBytes(count, low))
	if r.bad {
		return false
	}
	unpack(values, packed[:len(packed)+unpackSlack], low)
	return d.entropy.decode(coded, values, count, width)
}

// patch puts the exceptions over the packed values.
func patch(r *reader, values []int64, widths []uint8) bool {
	for i := -1; ; {
		gap := r.uvarint()
		if gap == 0 {
			return !r.bad
		}
		over := r.varint()
		if r.bad || gap > uint64(len(values)-1-i) {
			return false
		}
		i += int(gap)
		width := widths[0]
		if len(widths) > 1 {
			width = widths[i/groupValues]
		}
		values[i] |= over << width
	}
}

// accumulate turns residuals, less the base, into values.
func accumulate(values []int64, order int, first [2]int64, base int64, shift uint) {
	shift &= 63
	switch order {
	case order0:
		for i, v := range values {
			values[i] = base + v<<shift
		}
	case order1:
		at := first[0]
		values[0] = at
		for i := 1; i < len(values); i++ {
			at += base + values[i]<<shift
			values[i] = at
		}
	case order2:
		at, delta := first[1], first[1]-first[0]
		values[0], values[1] = first[0], first[1]
		for i := 2; i < len(values); i++ {
			delta += base + values[i]<<shift
			at += delta
			values[i] = at
		}
	}
}
