package codec

import "encoding/binary"

// columnDecoder reads a column: start unpacks the residuals, then next makes values of
// them, stretch by stretch. It keeps scratch memory, ready when zero.
type columnDecoder struct {
	entropy entropyDecoder

	order   int
	shift   uint
	base    int64
	uniform bool  // all residuals are 0
	at      int64 // the value before the next one; order1 and order2
	delta   int64 // that led to it; order2
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
	if err := d.start(r, values, count); err != nil {
		return err
	}
	d.next(values[:count])
	return nil
}

// start reads a column of count values and leaves the residuals of its first ones in
// values, whose length is a multiple of 8, for next.
func (d *columnDecoder) start(r *reader, values []int64, count int) error {
	start := r.at
	flags := r.byte()
	d.entropy.pending = nil
	d.order, d.shift = int(flags&orderMask), 0
	if flags&columnShifted != 0 {
		d.shift = uint(r.byte())
	}
	var first [2]int64
	for i := range min(d.order, order2) {
		first[i] = r.varint()
	}
	d.base = r.varint()
	if r.bad || flags&columnUnknown != 0 || d.shift > 63 || d.order > order2 || count < d.order {
		return corrupt("head of a column", start)
	}
	width, ok := d.unpack(r, values, count, flags)
	if !ok {
		return corrupt("packed values", start)
	}
	d.uniform = width == 0 && flags&columnPatched == 0
	d.begin(first, values)
	return nil
}

// begin sets what next goes on from, so that it arrives at the first values.
func (d *columnDecoder) begin(first [2]int64, values []int64) {
	residual := func(i int) int64 {
		if d.uniform || i >= len(values) {
			return d.base
		}
		v := values[i]
		if len(d.entropy.pending) > i {
			v |= d.entropy.top(d.entropy.pending[i])
		}
		return d.base + v<<d.shift
	}
	switch d.order {
	case order1:
		d.at = first[0] - residual(0)
	case order2:
		d.delta = first[1] - first[0] - residual(1)
		d.at = first[0] - d.delta
		d.delta -= residual(0)
	}
}

// next replaces the next residuals by their values.
func (d *columnDecoder) next(values []int64) {
	base, shift := d.base, d.shift&63
	at, delta := d.at, d.delta
	symbols := d.entropy.pending
	if len(symbols) > 0 {
		symbols, d.entropy.pending = symbols[:len(values)], symbols[len(values):]
	}
	switch {
	case d.uniform && d.order == order0:
		fillLine(values, base, 0)
	case d.uniform && d.order == order1:
		fillLine(values, at+base, base)
		at += base * int64(len(values))
	case d.uniform:
		for i := range values {
			delta += base
			at += delta
			values[i] = at
		}
	case d.order == order0:
		d.entropy.over(values, symbols)
		for i, v := range values {
			values[i] = base + v<<shift
		}
	case d.order == order1 && len(symbols) == 0:
		for i, v := range values {
			at += base + v<<shift
			values[i] = at
		}
	case d.order == order1:
		topShift, topMask := d.entropy.topShift&63, d.entropy.topMask
		symbols = symbols[:len(values)]
		for i, v := range values {
			at += base + (v|int64(symbols[i])&topMask<<topShift)<<shift
			values[i] = at
		}
	default:
		d.entropy.over(values, symbols)
		for i, v := range values {
			delta += base + v<<shift
			at += delta
			values[i] = at
		}
	}
	d.at, d.delta = at, delta
}

// fillLine fills values with at, at+step and so on.
func fillLine(values []int64, at, step int64) {
	for len(values) >= 4 {
		four := values[:4:4]
		four[0], four[1], four[2], four[3] = at, at+step, at+2*step, at+3*step
		at += 4 * step
		values = values[4:]
	}
	for i := range values {
		values[i] = at
		at += step
	}
}

// unpack fills values with the first of the count that were packed, exceptions included,
// and returns the width, or 64 for several. Of width 0 without exceptions values stays
// as it is.
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
			from, to := min(len(values), g*groupValues), min(len(values), (g+1)*groupValues)
			unpack(values[from:to], packed[:len(packed)+unpackSlack], uint(w))
		}
		return 64, flags&columnPatched == 0 || patch(r, values, count, widths)
	default:
		width = uint(r.byte())
		packed := r.take(packedBytes(count, width))
		if r.bad || width > 64 {
			return 0, false
		}
		if width == 0 && flags&columnPatched == 0 {
			return 0, true
		}
		unpack(values, packed[:len(packed)+unpackSlack], width)
	}
	return width, flags&columnPatched == 0 || patch(r, values, count, []uint8{uint8(width)})
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

// patch puts the exceptions among count values over the packed ones, as far as values goes.
func patch(r *reader, values []int64, count int, widths []uint8) bool {
	for i := -1; ; {
		gap := r.uvarint()
		if gap == 0 {
			return !r.bad
		}
		over := r.varint()
		if r.bad || gap > uint64(count-1-i) {
			return false
		}
		i += int(gap)
		if i >= len(values) {
			continue
		}
		width := widths[0]
		if len(widths) > 1 {
			width = widths[i/groupValues]
		}
		values[i] |= over << width
	}
}
