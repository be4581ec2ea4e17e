package codec

import (
	"encoding/binary"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
)

// Sizes of a page's memory. Both must be multiples of 8.
const (
	PageBytesMin = 32
	PageBytesMax = 128 // bounds a payload too
)

// Modes of a page. A decimal page of scale s has mode modeDecimal+s.
const (
	modeNone    = 0 // the head knows nothing
	modeDecimal = 1
	modeFloat   = modeDecimal + series.ScaleMax + 1

	// First bytes of payloads whose first time needs 8 bytes instead of 6.
	markFloatWide   = modeFloat + 1
	markDecimalWide = modeFloat + 2
)

// The fields of PageHead.state and PageHead.step.
const (
	statePosition  = 1<<10 - 1
	stateModeShift = 10
	stateMode      = 1<<5 - 1
	stateIrregular = 1 << 15

	stepShift = 4 // the width of values is below, the step of time above
	stepWidth = 1<<stepShift - 1
	stepMin   = -1 << 27
	stepMax   = 1<<27 - 1
)

// widthStart is the width of a value's delta at the start of a page, in bits.
const widthStart = 6

// PageHead is what a writer keeps of a page, beside its bytes, to append to it.
// The zero value knows nothing and has no page. It holds the newest sample also
// when the page is gone.
type PageHead struct {
	TimeMs   int64  // of the newest sample
	mantissa int64  // of the newest sample, in the page's mode
	step     uint32 // difference of the last two times, and width of deltas
	state    uint16 // bits used, mode, regular or not
	Tag      uint16 // for the caller, the codec leaves it alone
}

func (h *PageHead) mode() uint16 { return h.state >> stateModeShift & stateMode }

// Known reports whether the head holds a newest sample.
func (h *PageHead) Known() bool { return h.mode() != modeNone }

// Scale returns the scale of the page: 0 to series.ScaleMax, or series.ScaleFloat
// for a page of floats.
func (h *PageHead) Scale() uint8 {
	if m := h.mode(); m < modeFloat {
		return uint8(m - modeDecimal)
	}
	return series.ScaleFloat
}

// Number returns the newest sample's number.
func (h *PageHead) Number() series.Number {
	return series.Number{Mantissa: h.mantissa, Scale: h.Scale()}
}

// Same reports whether a number in the page's scale is the newest sample's.
func (h *PageHead) Same(mantissa int64) bool { return h.mantissa == mantissa }

// Rescale returns the mantissa that stands, at scale to, for the same float64 as
// the number, if there is one. Scale series.ScaleFloat takes every number.
func Rescale(mantissa int64, scale, to uint8) (int64, bool) {
	if scale == to {
		return mantissa, scale > series.ScaleMax || decimalInBounds(mantissa)
	}
	if to > series.ScaleMax {
		return series.FloatNumber(series.Float64(mantissa, scale)).Mantissa, true
	}
	if scale > to {
		if scale > series.ScaleMax {
			return 0, false
		}
		power := integerPowers[(scale-to)&series.ScaleMax]
		return mantissa / power, mantissa%power == 0 && decimalInBounds(mantissa)
	}
	// |p| < 10^15·2^53 may overflow, so compare before multiplying.
	power := integerPowers[(to-scale)&series.ScaleMax]
	limit := series.MantissaMax / power
	if mantissa > limit || mantissa < -limit {
		return 0, false
	}
	return mantissa * power, true
}

func decimalInBounds(mantissa int64) bool {
	return mantissa >= -series.MantissaMax && mantissa <= series.MantissaMax
}

//nolint:gochecknoglobals // a constant table
var integerPowers = [series.ScaleMax + 1]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// Begin starts a page with its first sample, a number in the given scale, which
// becomes the page's. The page's memory must be zero, PageBytesMin to
// PageBytesMax bytes long.
func (h *PageHead) Begin(page []byte, timeMs, mantissa int64, scale uint8) {
	mode := uint16(modeFloat)
	if scale <= series.ScaleMax {
		mode = modeDecimal + uint16(scale)
	}
	z := zigzag(mantissa)
	length := max(1, (bits.Len64(z)+7)/8)
	wide := timeMs != timeMs<<16>>16
	at := 1
	page[0] = byte(mode) | byte(length-1)<<5
	switch {
	case mode == modeFloat:
		if wide {
			page[0] = markFloatWide | byte(length-1)<<5
		}
		putWindow(page, windowStart)
		at = 3
	case wide:
		page[0] = markDecimalWide | byte(length-1)<<5
		page[1] = byte(mode)
		at = 2
	}
	binary.LittleEndian.PutUint64(page[at:], uint64(timeMs))
	at += 6
	if wide {
		at += 2
	}
	binary.LittleEndian.PutUint64(page[at:], z) // what is beyond length is zero or, with the time, overwritten
	at += length
	h.TimeMs, h.mantissa = timeMs, mantissa
	h.step = widthStart
	h.state = mode<<stateModeShift | uint16(at*8)
}

// Append adds a sample whose mantissa is in the page's scale (see Rescale). It
// reports whether there was room; if not, nothing has changed. Times may go in
// any direction. The page's length is its capacity.
func (h *PageHead) Append(page []byte, timeMs, mantissa int64) bool {
	if h.state>>stateModeShift < modeFloat && timeMs-h.TimeMs == int64(int32(h.step)>>stepShift) {
		// A regular page, decimal, and the time is as expected.
		width := uint(h.step & stepWidth)
		position := uint(h.state & statePosition)
		code, length, next := uint64(0), uint(1), width
		if delta := mantissa - h.mantissa; delta != 0 {
			code, length, next = valueCode(delta, width)
			if length > 57 {
				return h.appendSlowly(page, timeMs, mantissa)
			}
		}
		if position+length >= uint(len(page))*8 {
			return false
		}
		put(page, position, code, length)
		h.TimeMs, h.mantissa = timeMs, mantissa
		h.step = h.step&^stepWidth | uint32(next)
		h.state += uint16(length)
		return true
	}
	return h.appendSlowly(page, timeMs, mantissa)
}

// valueCode returns the code of a delta ≠ 0 and the next width. When the length is
// over 57 the code is not valid: see appendSlowly.
func valueCode(delta int64, width uint) (code uint64, length, next uint) {
	z := zigzag(delta) - 1
	size := uint(bits.Len64(z))
	next = nextWidth(width, size)
	switch {
	case size <= width:
		return 0b10<<width | z, 2 + width, next
	case size <= width+3:
		return 0b110<<(width+3) | z, 6 + width, next
	}
	return (0b1110<<6|uint64(size-1))<<size | z, 10 + size, next
}

// nextWidth adapts the width of deltas to the size in bits of the last one.
func nextWidth(width, size uint) uint {
	if size > width {
		return min(size, stepWidth)
	}
	if size+4 <= width {
		return width - 1
	}
	return width
}

// put writes the low length ≤ 57 bits of code at a bit position, over zeros. The
// bits must be within the page.
func put(page []byte, position uint, code uint64, length uint) {
	at := min(position>>3, uint(len(page))-8)
	word := page[at : at+8 : at+8]
	shift := 64 - (position - at*8) - length
	binary.BigEndian.PutUint64(word, binary.BigEndian.Uint64(word)|code<<(shift&63))
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(z uint64) int64 { return int64(z>>1) ^ -int64(z&1) }
