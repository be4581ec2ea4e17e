package exactsum

import (
	"math"
	"math/bits"
)

// large is an integer in two's complement, of which word i counts units of 2^(64·i-1074). It has
// room for the greatest float64, at bit 2098, added 2^77 times, and for a sign.
type large [34]uint64

const (
	mantissaBits = 52
	mantissaMask = 1<<mantissaBits - 1
	exponentMask = 1<<11 - 1
)

// add adds a finite number.
func (l *large) add(v float64) {
	b := math.Float64bits(v)
	exponent, mantissa := b>>mantissaBits&exponentMask, b&mantissaMask
	if exponent > 0 {
		mantissa |= 1 << mantissaBits
		exponent-- // exponents 0 and 1 have the same unit
	}
	if mantissa == 0 {
		return
	}
	negative := uint64(int64(b) >> 63) // all ones, or none
	word, shift := int(exponent>>6), exponent&63
	var carry uint64
	l[word], carry = bits.Add64(l[word], mantissa<<shift^negative, negative&1)
	l[word+1], carry = bits.Add64(l[word+1], mantissa>>1>>(63-shift)^negative, carry)
	for i := word + 2; i < len(l) && carry != negative&1; i++ { // then nothing changes any more
		l[i], carry = bits.Add64(l[i], negative, carry)
	}
}

// merge adds another integer.
func (l *large) merge(o *large) {
	var carry uint64
	for i := range l {
		l[i], carry = bits.Add64(l[i], o[i], carry)
	}
}

// round returns the nearest float64, divided by 2^less, which must not make it subnormal.
func (l *large) round(less int) float64 {
	words := *l
	if int64(words[len(words)-1]) >= 0 {
		return words.roundPositive(less)
	}
	borrow := uint64(0)
	for i := range words {
		words[i], borrow = bits.Sub64(0, words[i], borrow)
	}
	return -words.roundPositive(less)
}

func (l *large) roundPositive(less int) float64 {
	top := len(l) - 1
	for top > 0 && l[top] == 0 {
		top--
	}
	highest := 64*top + bits.Len64(l[top]) - 1 // bit
	if highest <= mantissaBits {
		return math.Float64frombits(l[0]) // exponents 0 and 1 have the same unit
	}
	from := highest - mantissaBits // bit: the last that is kept
	mantissa := l.bitsFrom(from)
	if half := from - 1; l.bitsFrom(half)&1 != 0 && (mantissa&1 != 0 || l.anyBelow(half)) {
		mantissa++
	}
	exponent := from - less // one less, as the mantissa's highest bit is added to it
	if exponent >= exponentMask-1 {
		return math.Inf(1)
	}
	return math.Float64frombits(uint64(exponent)<<mantissaBits + mantissa)
}

// bitsFrom returns 64 bits from one on.
func (l *large) bitsFrom(bit int) uint64 {
	word, shift := bit>>6, uint(bit&63)
	if word+1 == len(l) {
		return l[word] >> shift
	}
	return l[word]>>shift | l[word+1]<<1<<(63-shift)
}

// anyBelow reports whether a bit below one is set.
func (l *large) anyBelow(bit int) bool {
	for i := range bit >> 6 {
		if l[i] != 0 {
			return true
		}
	}
	return l[bit>>6]&(1<<(bit&63)-1) != 0
}

// numbers returns two numbers whose sum is the integer, the rounded one first, if there are such.
func (l *large) numbers() (first, rest float64, ok bool) {
	words := *l
	if first = words.round(0); math.IsInf(first, 0) {
		return 0, 0, false
	}
	words.add(-first)
	rest = words.round(0)
	words.add(-rest)
	return first, rest, words == large{}
}
