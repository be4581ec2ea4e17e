package parse

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time ("SWAR"). Byte i of the text is byte i of the word from
// the low end. The masks have the top bit of a byte set for a hit; only the
// lowest hit is exact for below, which is the one that is used.
const (
	wordOnes  = 0x0101010101010101
	wordHighs = 0x8080808080808080
	wordZeros = 0x3030303030303030 // eight times '0'
)

func load64(b []byte, at int) uint64 {
	return binary.LittleEndian.Uint64(b[at : at+8 : at+8])
}

// below marks the bytes of x that are less than limit, 1 to 128.
func below(x uint64, limit byte) uint64 {
	return (x - wordOnes*uint64(limit)) & ^x & wordHighs
}

// equal marks the bytes of x that are c.
func equal(x uint64, c byte) uint64 { return below(x^wordOnes*uint64(c), 1) }

// notDigits marks, of eight characters less '0', those that are no digits. All
// marks are exact.
func notDigits(t uint64) uint64 {
	return ((t & ^uint64(wordHighs)) + 0x7676767676767676 | t) & wordHighs
}

// eightDigits returns the number of eight digits, the first in the low byte, each
// less '0'. Leading zero bytes count as zeros.
func eightDigits(t uint64) uint64 {
	t = t*10 + t>>8
	const mask = 0x000000FF000000FF
	return ((t&mask)*(100+1000000<<32) + (t>>16&mask)*(1+10000<<32)) >> 32
}

// first returns the index of the lowest marked byte; 8 when there is none.
func first(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// sameText reports whether the n bytes at b[i:] and those before them at b[j:],
// j ≤ i, are equal. It returns false when b is too short to be read by words.
func sameText(b []byte, i, j, n int) bool {
	for ; n > 8; i, j, n = i+8, j+8, n-8 {
		if i+8 > len(b) || load64(b, i) != load64(b, j) {
			return false
		}
	}
	if i+8 > len(b) {
		return false
	}
	return (load64(b, i)^load64(b, j))<<(64-8*uint(n)) == 0
}

//nolint:gochecknoglobals // a constant table
var tens = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// signBytes returns 1 for a minus, else 0; without a branch, as signs come at
// random.
func signBytes(c byte) int {
	n := 0
	if c == '-' {
		n = 1
	}
	return n
}

// signed returns −v when sign is 1, and v when it is 0.
func signed(v uint64, sign int) int64 { return (int64(v) ^ -int64(sign)) + int64(sign) }

// digitRun reads digits at b[at:], at most 8 of them, as a whole word; ok says
// that the word lies inside b.
func digitRun(b []byte, at int) (value uint64, digits int, ok bool) {
	if at+8 > len(b) {
		return 0, 0, false
	}
	t := load64(b, at) ^ wordZeros
	n := first(notDigits(t))
	// A shift by 64 is 0 in Go, which is right for no digits at all.
	return eightDigits(t << (64 - 8*uint(n))), n, true
}

// digits19 reads up to 19 digits. It returns no digits when there are more, or
// when b is too short to be read by words.
func digits19(b []byte, at int) (value uint64, digits int) {
	value, digits, _ = digitRun(b, at)
	if digits < 8 {
		return value, digits
	}
	v, n, ok := digitRun(b, at+8)
	value, digits = value*tens[n]+v, digits+n
	if n < 8 && ok {
		return value, digits
	}
	v, n, ok = digitRun(b, at+16)
	if !ok || n > 3 {
		return 0, 0
	}
	return value*tens[n] + v, digits + n
}

// decimal reads the unsigned decimal at b[at:]: digits, or digits, a point and
// digits. It returns ok = false for whatever is not sure to fit: more than 18
// digits, a mantissa or a scale beyond a series.Number, a point without digits
// on both sides, or an end too near to the end of b.
func decimal(b []byte, at int) (mantissa uint64, scale uint8, end int, ok bool) {
	if at+8 > len(b) {
		return 0, 0, at, false
	}
	t := load64(b, at) ^ wordZeros
	stops := notDigits(t)
	p := first(stops)
	if p == 8 {
		return longDecimal(b, at)
	}
	if b[at+p] != '.' {
		// A shift by 64 is 0: no digits.
		return eightDigits(t << (64 - 8*uint(p))), 0, at + p, p > 0
	}
	stops &= stops - 1
	if stops == 0 {
		return longDecimal(b, at)
	}
	q := first(stops)
	if p == 0 || q == p+1 {
		return 0, 0, at, false
	}
	// Take the point out: the bytes behind it move down by one.
	low := uint64(1)<<(8*uint(p)) - 1
	t = t&low | t>>8&^low
	return eightDigits(t << (64 - 8*uint(q-1))), uint8(q - 1 - p), at + q, true
}

func longDecimal(b []byte, at int) (mantissa uint64, scale uint8, end int, ok bool) {
	mantissa, n := digits19(b, at)
	if n == 0 || n > 18 {
		return 0, 0, at, false
	}
	end = at + n
	if end < len(b) && b[end] == '.' {
		fraction, places := digits19(b, end+1)
		if places == 0 || places > 15 || n+places > 18 {
			return 0, 0, at, false
		}
		mantissa = mantissa*tens[places] + fraction
		scale = uint8(places)
		end += 1 + places
	}
	return mantissa, scale, end, mantissa <= 1<<53
}
