package codec

import (
	"encoding/binary"
	"math/bits"
)

// bitString is a payload as a string of '0' and '1', to be read slowly.
type bitString struct {
	bits string
	ok   bool
}

func bitsOf(b []byte, highestFirst bool) *bitString {
	s := &bitString{ok: true}
	text := make([]byte, 0, 8*len(b))
	for _, c := range b {
		for i := range 8 {
			bit := c >> i & 1
			if highestFirst {
				bit = c >> (7 - i) & 1
			}
			text = append(text, '0'+bit)
		}
	}
	s.bits = string(text)
	return s
}

// number takes n bits, the highest first.
func (s *bitString) number(n int) (v uint64) {
	if n > len(s.bits) {
		s.bits, s.ok = "", false
		return 0
	}
	for _, c := range s.bits[:n] {
		v = v<<1 | uint64(c-'0')
	}
	s.bits = s.bits[n:]
	return v
}

// ones takes one-bits up to a zero-bit, or most of them, and returns their number.
func (s *bitString) ones(most int) (n int) {
	for n < most && s.number(1) == 1 {
		n++
	}
	return n
}

// oraclePage decodes a page as FORMAT.md says, bit by bit.
func oraclePage(payload []byte) (c *Columns, ok bool) {
	if len(payload) < 9 || len(payload) > PageBytesMax || payload[len(payload)-1] == 0 {
		return nil, false
	}
	mode, mantissaBytes, at, timeBytes := int(payload[0]&31), int(payload[0]>>5)+1, 1, 6
	switch mode {
	case 17:
		at = 3
	case 18:
		mode, at, timeBytes = 17, 3, 8
	case 19:
		mode, at, timeBytes = int(payload[1]), 2, 8
		if mode == 17 {
			return nil, false
		}
	}
	if mode < 1 || mode > 17 {
		return nil, false
	}
	scale := uint8(mode - 1)
	if mode == 17 {
		scale = 255
	}
	if at+timeBytes+mantissaBytes > len(payload) {
		return nil, false
	}
	var word [8]byte
	copy(word[:], payload[at:at+timeBytes])
	timeMs := int64(binary.LittleEndian.Uint64(word[:]))
	if timeBytes == 6 && timeMs >= 1<<47 {
		timeMs -= 1 << 48
	}
	at += timeBytes
	word = [8]byte{}
	copy(word[:], payload[at:at+mantissaBytes])
	mantissa := unzigzag(binary.LittleEndian.Uint64(word[:]))
	at += mantissaBytes

	s := bitsOf(payload[at:], true)
	for len(s.bits) > 0 && s.bits[len(s.bits)-1] == '0' {
		s.bits = s.bits[:len(s.bits)-1]
	}
	if len(s.bits) == 0 {
		return nil, false
	}
	s.bits = s.bits[:len(s.bits)-1]
	o := oracleState{bitString: s, timeMs: timeMs, mantissa: mantissa, width: 6, length: 64, regular: true, decimal: mode < 17}
	c = &Columns{}
	for {
		c.Times, c.Mantissas, c.Scales = append(c.Times, o.timeMs), append(c.Mantissas, o.mantissa), append(c.Scales, scale)
		if len(s.bits) == 0 || !s.ok {
			return c, s.ok
		}
		o.sample()
	}
}

type oracleState struct {
	*bitString
	timeMs, step, mantissa int64
	width, leading, length int
	regular, decimal       bool
}

func (o *oracleState) sample() {
	escape := 3
	if o.decimal {
		escape = 4
	}
	if o.regular {
		code := o.ones(escape)
		if code < escape {
			o.timeMs += o.step
			o.value(code)
			return
		}
		o.regular = o.step == 0
	}
	o.time()
	code := o.ones(escape)
	if code == escape {
		o.ok = false
		return
	}
	o.value(code)
}

func (o *oracleState) time() {
	switch o.ones(5) {
	case 1:
		o.step += unzigzag(o.number(5) + 1)
	case 2:
		o.step += unzigzag(o.number(9) + 1)
	case 3:
		o.step += unzigzag(o.number(16) + 1)
	case 4:
		o.step = int64(o.number(28))
		if o.step >= 1<<27 {
			o.step -= 1 << 28
		}
	case 5:
		o.timeMs, o.step = int64(o.number(64)), 0
		return
	}
	o.timeMs += o.step
}

func (o *oracleState) value(code int) {
	if code == 0 {
		return
	}
	if !o.decimal {
		if code == 2 {
			o.leading, o.length = int(o.number(6)), int(o.number(6))+1
			if o.leading+o.length > 64 {
				o.ok = false
				return
			}
		}
		o.mantissa ^= int64(o.number(o.length) << (64 - o.leading - o.length))
		return
	}
	size := []int{0, o.width, o.width + 3, 0}[code]
	if code == 3 {
		size = int(o.number(6)) + 1
	}
	z := o.number(size)
	o.mantissa += unzigzag(z + 1)
	if s := bits.Len64(z); s > o.width {
		o.width = min(s, 15)
	} else if s+4 <= o.width {
		o.width--
	}
}
