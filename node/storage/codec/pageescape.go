package codec

import (
	"encoding/binary"
	"math/bits"
)

// escape is a code of several parts, each of at most 57 bits: everything that
// Append's direct way does not cover.
type escape struct {
	parts [8]struct {
		code   uint64
		length uint
	}
	count  int
	length uint // of all parts
}

func (e *escape) add(code uint64, length uint) {
	if length > 57 {
		e.add(code>>32, length-32)
		code, length = code&(1<<32-1), 32
	}
	e.parts[e.count].code, e.parts[e.count].length = code, length
	e.count++
	e.length += length
}

// addTime adds the code of a difference of times and returns the next step.
func (e *escape) addTime(timeMs, delta, step int64) (next int64) {
	if delta < stepMin || delta > stepMax {
		e.add(0b11111, 5)
		e.add(uint64(timeMs), 64)
		return 0
	}
	z := zigzag(delta-step) - 1 // wraps for an equal step
	switch {
	case delta == step:
		e.add(0, 1)
	case z < 1<<5:
		e.add(0b10<<5|z, 2+5)
	case z < 1<<9:
		e.add(0b110<<9|z, 3+9)
	case z < 1<<16:
		e.add(0b1110<<16|z, 4+16)
	default:
		e.add(0b11110<<28|uint64(delta)&(1<<28-1), 5+28)
	}
	return delta
}

// addDecimal adds the code of a mantissa's delta and returns the next width.
func (e *escape) addDecimal(delta int64, width uint) (next uint) {
	if delta == 0 {
		e.add(0, 1)
		return width
	}
	code, length, next := valueCode(delta, width)
	if length <= 57 {
		e.add(code, length)
		return next
	}
	z := zigzag(delta) - 1
	size := uint(bits.Len64(z))
	e.add(0b1110<<6|uint64(size-1), 10)
	e.add(z, size)
	return next
}

// A window says which bits of a XOR are kept: a count of leading zeros, and the
// count of bits after them less one, 6 bits each. The window of a page of floats
// is in its bytes 1 and 2.
type window uint16

const windowStart window = 63 // no leading zeros, 64 bits

func makeWindow(leading, length uint) window { return window(leading<<6 | (length - 1)) }

func (w window) leading() uint  { return uint(w >> 6 & 63) }
func (w window) length() uint   { return uint(w&63) + 1 }
func (w window) trailing() uint { return 64 - w.leading() - w.length() }

func getWindow(page []byte) window    { return window(binary.LittleEndian.Uint16(page[1:])) }
func putWindow(page []byte, w window) { binary.LittleEndian.PutUint16(page[1:], uint16(w)) }

// addFloat adds the code of the XOR of two floats' bits and returns the next
// window, as in Pelkonen et al., "Gorilla: A Fast, Scalable, In-Memory Time
// Series Database", VLDB 2015, but a window is left when that is shorter now.
func (e *escape) addFloat(xor uint64, w window) (next window) {
	if xor == 0 {
		e.add(0, 1)
		return w
	}
	leading, trailing := uint(bits.LeadingZeros64(xor)), uint(bits.TrailingZeros64(xor))
	length := 64 - leading - trailing
	if leading >= w.leading() && trailing >= w.trailing() && w.length() <= length+windowBits {
		e.add(0b10, 2)
		e.add(xor>>w.trailing(), w.length())
		return w
	}
	w = makeWindow(leading, length)
	e.add(0b110<<12|uint64(w), 3+12)
	e.add(xor>>trailing, length)
	return w
}

const windowBits = 13 // what a new window costs more than the old one

func (h *PageHead) appendSlowly(page []byte, timeMs, mantissa int64) bool {
	var e escape
	step := int64(int32(h.step) >> stepShift)
	delta := timeMs - h.TimeMs // wraps, and wraps back in the decoder
	float := h.mode() == modeFloat
	state, next := h.state, step
	if state&stateIrregular != 0 {
		next = e.addTime(timeMs, delta, step)
	} else if delta != step {
		if float {
			e.add(0b111, 3)
		} else {
			e.add(0b1111, 4)
		}
		next = e.addTime(timeMs, delta, step)
		if step != 0 {
			state |= stateIrregular
		}
	}
	width, w := uint(h.step&stepWidth), window(0)
	if float {
		w = e.addFloat(uint64(mantissa^h.mantissa), getWindow(page))
	} else {
		width = e.addDecimal(mantissa-h.mantissa, width)
	}

	position := uint(h.state & statePosition)
	if position+e.length >= uint(len(page))*8 {
		return false
	}
	for _, part := range e.parts[:e.count] {
		put(page, position, part.code, part.length)
		position += part.length
	}
	if float {
		putWindow(page, w)
	}
	h.TimeMs, h.mantissa = timeMs, mantissa
	h.step = uint32(next)<<stepShift | uint32(width)
	h.state = state&^statePosition | uint16(position)
	return true
}

// AppendPayload appends what DecodePage reads: the page's bytes up to a one-bit
// that marks the end.
func (h *PageHead) AppendPayload(dst, page []byte) []byte {
	position := uint(h.state & statePosition)
	last := position >> 3
	dst = append(dst, page[:last+1]...)
	dst[len(dst)-1] |= 0x80 >> (position & 7)
	return dst
}

// Bytes returns the length of the payload.
func (h *PageHead) Bytes() int { return int(h.state&statePosition)>>3 + 1 }

// EncodePage starts a page of the given scale in zeroed memory and fills it with
// all samples of columns. It reports whether their numbers allow it and there is
// room. There must be at least one sample.
func EncodePage(page []byte, columns *Columns, scale uint8) (h PageHead, ok bool) {
	for i := range columns.Times {
		m, ok := Rescale(columns.Mantissas[i], columns.Scales[i], scale)
		if !ok {
			return PageHead{}, false
		}
		if i == 0 {
			h.Begin(page, columns.Times[0], m, scale)
		} else if !h.Append(page, columns.Times[i], m) {
			return PageHead{}, false
		}
	}
	return h, true
}
