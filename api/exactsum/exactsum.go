package exactsum

import (
	"math"
	"math/bits"
	"unsafe"
)

// Word i of a sum counts units of 2^(64·i-1074).
const (
	// wordsAll hold the greatest float64, at bit 2098, added 2^77 times, and a sign.
	wordsAll = 34
	// The small form is the words from smallFrom on. A value's lowest bit has to be in one of the
	// first two, so that its highest is in the third at most, and the fourth takes carries and the sign.
	smallWords = 4
	smallFrom  = 15
)

// LargeBytes is what a sum holds beside itself once a value was beyond the small form.
const LargeBytes = 8 * wordsAll

const (
	signMask     = 1 << 63
	mantissaBits = 52
	mantissaMask = 1<<mantissaBits - 1
	exponentMask = 1<<11 - 1
)

// What a sum has beside its finite values.
const (
	flagNaN uint8 = 1 << iota
	flagPositive
	flagNegative
	flagNegativeZero
	flagOther // a value that is no negative zero
	flagsEnd
)

// Sum is the exact sum of the values that were added to it. The zero Sum is of none, and 0. A
// copy shares the large form with its original: of the two, one may be added to.
type Sum struct {
	small [smallWords]uint64
	large *[wordsAll]uint64 // nil: the small form counts
	flags uint8
}

// Bytes returns what the sum holds, with itself.
func (s *Sum) Bytes() int {
	if s.large != nil {
		return int(unsafe.Sizeof(*s)) + LargeBytes
	}
	return int(unsafe.Sizeof(*s))
}

// Add adds a value and returns by how many bytes the sum has grown: LargeBytes or 0.
func (s *Sum) Add(v float64) (grown int) {
	b := math.Float64bits(v)
	exponent := b >> mantissaBits & exponentMask
	at := exponent - 1 // of the lowest bit of the mantissa
	negative := uint64(int64(b) >> 63)
	mantissa := b&mantissaMask | 1<<mantissaBits
	lo := mantissa<<(at&63) ^ negative
	hi := mantissa>>1>>(63-at&63) ^ negative
	var carry uint64
	if s.large == nil {
		switch at >> 6 {
		case smallFrom:
			s.flags |= flagOther
			s.small[0], carry = bits.Add64(s.small[0], lo, negative&1)
			s.small[1], carry = bits.Add64(s.small[1], hi, carry)
			s.small[2], carry = bits.Add64(s.small[2], negative, carry)
			s.small[3], _ = bits.Add64(s.small[3], negative, carry)
			return 0
		case smallFrom + 1:
			s.flags |= flagOther
			s.small[1], carry = bits.Add64(s.small[1], lo, negative&1)
			s.small[2], carry = bits.Add64(s.small[2], hi, carry)
			s.small[3], _ = bits.Add64(s.small[3], negative, carry)
			return 0
		}
	}
	return s.addSlow(b)
}

// addSlow is Add for values that have no place in the small form, and for the large one.
func (s *Sum) addSlow(b uint64) (grown int) {
	exponent, mantissa := b>>mantissaBits&exponentMask, b&mantissaMask
	negative := uint64(int64(b) >> 63)
	switch {
	case b == signMask:
		s.flags |= flagNegativeZero
		return 0
	case exponent == exponentMask:
		s.flags |= flagOther | flagOf(mantissa, negative)
		return 0
	case exponent > 0:
		mantissa |= 1 << mantissaBits
		exponent--
	}
	s.flags |= flagOther
	if mantissa == 0 {
		return 0
	}
	grown = s.grow()
	word, shift := exponent>>6, exponent&63
	var carry uint64
	s.large[word], carry = bits.Add64(s.large[word], mantissa<<shift^negative, negative&1)
	s.large[word+1], carry = bits.Add64(s.large[word+1], mantissa>>1>>(63-shift)^negative, carry)
	for i := word + 2; i < wordsAll && carry != negative&1; i++ { // then nothing changes any more
		s.large[i], carry = bits.Add64(s.large[i], negative, carry)
	}
	return grown
}

// flagOf returns the flag of NaN, or of an infinity, which has no mantissa.
func flagOf(mantissa, negative uint64) uint8 {
	switch {
	case mantissa != 0:
		return flagNaN
	case negative != 0:
		return flagNegative
	}
	return flagPositive
}

// grow makes the sum take its large form and returns LargeBytes, or 0 if it has it.
func (s *Sum) grow() int {
	if s.large != nil {
		return 0
	}
	s.large = new([wordsAll]uint64)
	s.spread(s.large)
	return LargeBytes
}

// spread sets the words of the large form to those of the small one.
func (s *Sum) spread(words *[wordsAll]uint64) {
	copy(words[smallFrom:], s.small[:])
	sign := uint64(int64(s.small[smallWords-1]) >> 63)
	for i := smallFrom + smallWords; i < wordsAll; i++ {
		words[i] = sign
	}
}

// Merge adds the values of another sum and returns by how many bytes this one has grown.
func (s *Sum) Merge(o *Sum) (grown int) {
	s.flags |= o.flags
	var carry uint64
	if s.large == nil && o.large == nil {
		for i := range s.small {
			s.small[i], carry = bits.Add64(s.small[i], o.small[i], carry)
		}
		return 0
	}
	grown = s.grow()
	words := o.large
	if words == nil {
		var all [wordsAll]uint64
		o.spread(&all)
		words = &all
	}
	for i := range words {
		s.large[i], carry = bits.Add64(s.large[i], words[i], carry)
	}
	return grown
}

// Value returns the sum, rounded to the nearest float64, to even between two. As IEEE 754 has it,
// it is NaN where a value is, or where both infinities are; an infinity beyond the greatest float64; and
// a negative zero of nothing but negative zeros. What the sum was on the way does not matter.
func (s *Sum) Value() float64 {
	if v, special := s.special(); special {
		return v
	}
	var scratch [wordsAll]uint64
	words, below, negative := s.magnitude(&scratch)
	return signed(round(words, below), negative)
}

// Mean returns the sum of so many values, rounded as Value has it, by their number; also where the
// sum itself is beyond the greatest float64.
func (s *Sum) Mean(count int64) float64 {
	if v, special := s.special(); special {
		return v / float64(count)
	}
	var scratch [wordsAll]uint64
	words, below, negative := s.magnitude(&scratch)
	v := round(words, below)
	if !math.IsInf(v, 0) {
		return signed(v/float64(count), negative)
	}
	const less = 64 // the sum of 2^64 values is not beyond, by 2^64
	return signed(math.Ldexp(round(words, below-less)/float64(count), less), negative)
}

// special returns what the sum is if that does not follow from its words.
func (s *Sum) special() (v float64, special bool) {
	const infinities = flagPositive | flagNegative
	switch {
	case s.flags&flagNaN != 0 || s.flags&infinities == infinities:
		return math.NaN(), true
	case s.flags&flagPositive != 0:
		return math.Inf(1), true
	case s.flags&flagNegative != 0:
		return math.Inf(-1), true
	case s.flags&(flagNegativeZero|flagOther) == flagNegativeZero:
		return math.Copysign(0, -1), true
	}
	return 0, false
}

// magnitude returns the words of the sum without its sign, of which the first counts units of
// 2^(below-1074), in memory that is given.
func (s *Sum) magnitude(scratch *[wordsAll]uint64) (words []uint64, below int, negative bool) {
	if s.large != nil {
		words = append(scratch[:0], s.large[:]...)
	} else {
		words, below = append(scratch[:0], s.small[:]...), 64*smallFrom
	}
	if int64(words[len(words)-1]) >= 0 {
		return words, below, false
	}
	borrow := uint64(0)
	for i := range words {
		words[i], borrow = bits.Sub64(0, words[i], borrow)
	}
	return words, below, true
}

func signed(magnitude float64, negative bool) float64 {
	if negative {
		return -magnitude
	}
	return magnitude
}

// round returns words, of which the first counts units of 2^(below-1074), as a float64.
func round(words []uint64, below int) float64 {
	top := len(words) - 1
	for top > 0 && words[top] == 0 {
		top--
	}
	highest := 64*top + bits.Len64(words[top]) - 1 // bit
	if highest < 0 || below == 0 && highest <= mantissaBits {
		return math.Float64frombits(words[0]) // exponents 0 and 1 have the same unit
	}
	from := highest - mantissaBits // bit: the last that is kept
	var mantissa uint64
	if from <= 0 {
		mantissa = words[0] << -from
	} else {
		mantissa = bitsFrom(words, from)
		if half := from - 1; bitsFrom(words, half)&1 != 0 && (mantissa&1 != 0 || anyBelow(words, half)) {
			mantissa++
		}
	}
	exponent := below + from // one less, as the mantissa's highest bit is added to it
	if exponent >= exponentMask-1 {
		return math.Inf(1)
	}
	return math.Float64frombits(uint64(exponent)<<mantissaBits + mantissa)
}

// bitsFrom returns 64 bits from one on.
func bitsFrom(words []uint64, bit int) uint64 {
	word, shift := bit>>6, uint(bit&63)
	if word+1 == len(words) {
		return words[word] >> shift
	}
	return words[word]>>shift | words[word+1]<<1<<(63-shift)
}

// anyBelow reports whether a bit below one is set.
func anyBelow(words []uint64, bit int) bool {
	for i := range bit >> 6 {
		if words[i] != 0 {
			return true
		}
	}
	return words[bit>>6]&(1<<(bit&63)-1) != 0
}
