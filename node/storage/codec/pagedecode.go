package codec

import (
	"encoding/binary"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
)

// DecodePage appends the samples of a page to dst, in the order of appending:
// times may repeat and go backwards, and of equal times the last counts. After
// an error, which is ErrCorrupt, dst is as before.
func DecodePage(payload []byte, dst *Columns) error {
	var p pageReader
	if err := p.start(payload); err != nil {
		return err
	}
	n := len(dst.Times)
	times := extend(dst.Times, p.samplesMax())
	mantissas := extend(dst.Mantissas, p.samplesMax())
	count, err := p.decode(times[n:], mantissas[n:])
	if err != nil {
		return err
	}
	dst.Times, dst.Mantissas = times[:n+count], mantissas[:n+count]
	dst.Scales = extend(dst.Scales, count)
	for i := range dst.Scales[n:] {
		dst.Scales[n+i] = p.scale
	}
	return nil
}

// DecodePagePoints is DecodePage with values as float64.
func DecodePagePoints(payload []byte, dst *Points) error {
	var p pageReader
	if err := p.start(payload); err != nil {
		return err
	}
	n := len(dst.Times)
	times := extend(dst.Times, p.samplesMax())
	values := extend(dst.Values, p.samplesMax())
	count, err := p.decode(times[n:], asInts(values[n:]))
	if err != nil {
		return err
	}
	dst.Times, dst.Values = times[:n+count], values[:n+count]
	toFloats(dst.Values[n:], p.scale)
	return nil
}

// PageFirstTime returns the time of a page's first sample without decoding the
// others. Errors are ErrCorrupt.
func PageFirstTime(payload []byte) (int64, error) {
	var p pageReader
	if err := p.start(payload); err != nil {
		return 0, err
	}
	return p.timeMs, nil
}

// pageReader decodes one page. Reads may run over the payload's end into the
// zeros after it; a sample that needed those bits is refused.
type pageReader struct {
	bytes    [PageBytesMax + 16]byte
	position uint // of the next bit
	end      uint // bits
	scale    uint8

	// The last sample, and what the next code depends on.
	timeMs, mantissa int64
	step             int64
	width            uint
	regular          bool
	window           window
}

// word returns the 57 or more bits at a position, from the top.
func (p *pageReader) word(position uint) uint64 {
	at := position >> 3 & (PageBytesMax - 1)
	return binary.BigEndian.Uint64(p.bytes[at:at+8]) << (position & 7)
}

func (p *pageReader) start(payload []byte) error {
	if len(payload) < 9 || len(payload) > PageBytesMax {
		return corrupt("length of a page", len(payload))
	}
	last := payload[len(payload)-1]
	if last == 0 {
		return corrupt("end of a page", len(payload)-1)
	}
	copy(p.bytes[:PageBytesMax], payload)
	p.end = uint(len(payload)*8 - 1 - bits.TrailingZeros8(last))
	p.bytes[len(payload)-1] &= last - 1

	mode, length := payload[0]&31, uint(payload[0]>>5+1)
	at, wide := uint(1), false
	switch {
	case mode == modeFloat || mode == markFloatWide:
		at, wide = 3, mode == markFloatWide
		mode = modeFloat
		p.window = windowStart
	case mode == markDecimalWide:
		at, wide = 2, true
		mode = payload[1]
		if mode < modeDecimal || mode >= modeFloat {
			return corrupt("mode of a page", 1)
		}
	case mode < modeDecimal || mode > modeFloat:
		return corrupt("mode of a page", 0)
	}
	p.scale = series.ScaleFloat
	if mode < modeFloat {
		p.scale = mode - modeDecimal
	}
	p.timeMs = int64(binary.LittleEndian.Uint64(p.bytes[at:]))
	at += 8
	if !wide {
		p.timeMs = p.timeMs << 16 >> 16
		at -= 2
	}
	p.mantissa = unzigzag(binary.LittleEndian.Uint64(p.bytes[at:]) << (64 - 8*length) >> (64 - 8*length))
	at += length
	p.position = at * 8
	if p.position > p.end {
		return corrupt("first sample of a page", int(at))
	}
	return nil
}

// samplesMax bounds the number of samples: each needs a bit.
func (p *pageReader) samplesMax() int { return int(p.end-p.position) + 1 }

// decode needs room for samplesMax samples.
func (p *pageReader) decode(times, mantissas []int64) (count int, err error) {
	times[0], mantissas[0] = p.timeMs, p.mantissa
	if p.scale == series.ScaleFloat {
		return p.decodeFloats(times, mantissas)
	}
	return p.decodeDecimals(times, mantissas)
}

func (p *pageReader) decodeDecimals(times, mantissas []int64) (count int, err error) {
	p.width, p.regular = widthStart, true
	count = 1
	for {
		if p.regular {
			count = p.regularDecimals(times, mantissas, count)
		}
		if p.position >= p.end || count >= len(times) {
			break
		}
		if !p.decimal() {
			return 0, corrupt("value in a page", int(p.position/8))
		}
		times[count], mantissas[count] = p.timeMs, p.mantissa
		count++
	}
	if p.position != p.end {
		return 0, corrupt("last sample of a page", int(p.position/8))
	}
	return count, nil
}

// regularDecimals decodes samples from count on for as long as their codes are
// the frequent ones, and returns the count after them.
func (p *pageReader) regularDecimals(times, mantissas []int64, count int) int {
	position, end, width := p.position, p.end, p.width
	timeMs, mantissa, step := p.timeMs, p.mantissa, p.step
	mantissas = mantissas[:len(times)]
	for position < end && uint(count) < uint(len(times)) {
		word := p.word(position)
		var z uint64
		switch word >> 61 {
		case 0b000, 0b001, 0b010, 0b011:
			run := min(uint(bits.LeadingZeros64(word)), 57, end-position)
			position += run
			for ; run > 0 && uint(count) < uint(len(times)); run-- {
				timeMs += step
				times[count], mantissas[count] = timeMs, mantissa
				count++
			}
			continue
		case 0b100, 0b101:
			z = word << 2 >> ((64 - width) & 63)
			position += 2 + width
			if width >= 4 && z>>((width-4)&63) == 0 { // as nextWidth
				width--
			}
		case 0b110:
			z = word << 3 >> ((61 - width) & 63)
			position += 6 + width
			width = nextWidth(width, uint(bits.Len64(z)))
		default:
			goto other
		}
		timeMs += step
		mantissa += unzigzag(z + 1)
		times[count], mantissas[count] = timeMs, mantissa
		count++
	}
other:
	p.position, p.width = position, width
	p.timeMs, p.mantissa = timeMs, mantissa
	return count
}

// decimal decodes one sample with any code.
func (p *pageReader) decimal() bool {
	if word := p.word(p.position); !p.regular || word>>60 == 0b1111 {
		if p.regular {
			p.position += 4
			p.regular = p.step == 0
		}
		p.timeMs, p.step, p.position = p.time(p.position, p.timeMs, p.step)
	} else {
		p.timeMs += p.step
	}
	word := p.word(p.position)
	var z uint64
	switch bits.LeadingZeros64(^word) {
	case 0:
		p.position++
		return true
	case 1:
		z = p.long(p.position+2, p.width)
		p.position += 2 + p.width
	case 2:
		z = p.long(p.position+3, p.width+3)
		p.position += 6 + p.width
	case 3:
		size := uint(word<<4>>58) + 1
		z = p.long(p.position+10, size)
		p.position += 10 + size
	default:
		return false
	}
	p.mantissa += unzigzag(z + 1)
	p.width = nextWidth(p.width, uint(bits.Len64(z)))
	return true
}

// long returns the size ≤ 64 bits at a position.
func (p *pageReader) long(position, size uint) uint64 {
	if size <= 57 {
		return p.word(position) >> (64 - size)
	}
	return p.word(position)>>(96-size)<<32 | p.word(position+size-32)>>32
}

// time reads the code of a time and returns the position after it.
func (p *pageReader) time(position uint, timeMs, step int64) (nextMs, nextStep int64, after uint) {
	word := p.word(position)
	switch bits.LeadingZeros64(^word) {
	case 0:
		position++
	case 1:
		step += unzigzag(word<<2>>59 + 1)
		position += 2 + 5
	case 2:
		step += unzigzag(word<<3>>55 + 1)
		position += 3 + 9
	case 3:
		step += unzigzag(word<<4>>48 + 1)
		position += 4 + 16
	case 4:
		step = int64(word<<5) >> 36
		position += 5 + 28
	default:
		return int64(p.long(position+5, 64)), 0, position + 5 + 64
	}
	return timeMs + step, step, position
}

func (p *pageReader) decodeFloats(times, mantissas []int64) (int, error) {
	position, timeMs, mantissa, w := p.position, p.timeMs, p.mantissa, p.window
	step, regular := int64(0), true
	count := 1
	for position < p.end {
		word := p.word(position)
		if !regular || word>>61 == 0b111 {
			if regular {
				position += 3
				regular = step == 0
			}
			timeMs, step, position = p.time(position, timeMs, step)
			word = p.word(position)
			if word>>61 == 0b111 {
				return 0, corrupt("value in a page", int(position/8))
			}
		} else {
			timeMs += step
		}
		switch {
		case word>>63 == 0:
			position++
		default:
			position += 2
			if word>>62 == 0b11 {
				w = window(word << 3 >> 52)
				position += 1 + 12
				if w.leading()+w.length() > 64 {
					return 0, corrupt("window in a page", int(position/8))
				}
			}
			mantissa ^= int64(p.long(position, w.length()) << w.trailing())
			position += w.length()
		}
		if uint(count) >= uint(len(times)) || uint(count) >= uint(len(mantissas)) {
			break
		}
		times[count], mantissas[count] = timeMs, mantissa
		count++
	}
	if position != p.end {
		return 0, corrupt("last sample of a page", int(position/8))
	}
	return count, nil
}
