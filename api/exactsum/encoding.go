package exactsum

import (
	"encoding/binary"
	"errors"
	"math"
)

// The encoding of a sum begins with a byte that tells its form. Numbers are little-endian.
const (
	// formOne is followed by the sum as a float64, which it is exactly.
	formOne = 1
	// formTwo is followed by two float64s: the rounded sum, and what was rounded off.
	formTwo = 2
	// formLarge is a sum that two have no room for: 2 bytes tell how many zero bytes are left out below, 2 bytes how many
	// follow. These are the sum in two's complement, the lowest first, without zeros below and without more than one bit
	// of the sign above.
	formLarge = 3
)

const (
	numberBytes = 8
	largeHeader = 1 + 2 + 2
	// The highest byte of a sum that is decoded leaves room to merge 2^32 of them.
	largeBytesMax = LargeBytes - 4
	// EncodedBytesMax is the longest encoding.
	EncodedBytesMax = largeHeader + largeBytesMax
)

// ErrEncoding is the error of bytes that are no sum.
var ErrEncoding = errors.New("not the encoding of a sum")

// Append appends the encoding of the sum, which is the same whatever the order of its values was.
func (s *Sum) Append(dst []byte) []byte {
	first := -s.negated
	switch {
	case math.IsNaN(first):
		return appendNumbers(dst, math.NaN(), 0)
	case math.IsInf(first, 0) || s.large == nil && s.rest == 0:
		return appendNumbers(dst, first, 0)
	case s.large != nil:
		if first, rest, ok := s.large.numbers(); ok {
			return appendNumbers(dst, first, rest)
		}
		return s.large.append(dst)
	}
	if sum, off := twoSum(first, s.rest); !math.IsInf(sum, 0) {
		return appendNumbers(dst, sum, off)
	}
	all := large{}
	all.add(first)
	all.add(s.rest)
	return all.append(dst)
}

func appendNumbers(dst []byte, first, rest float64) []byte {
	if rest == 0 {
		return binary.LittleEndian.AppendUint64(append(dst, formOne), math.Float64bits(first))
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, formTwo), math.Float64bits(first))
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(rest))
}

func (l *large) append(dst []byte) []byte {
	var all [LargeBytes]byte
	for i, word := range l {
		binary.LittleEndian.PutUint64(all[8*i:], word)
	}
	from, text := 0, all[:]
	for redundant(text) {
		text = text[:len(text)-1]
	}
	for text[0] == 0 { // it is not 0, which one number is
		from, text = from+1, text[1:]
	}
	dst = binary.LittleEndian.AppendUint16(append(dst, formLarge), uint16(from))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(text)))
	return append(dst, text...)
}

// redundant reports whether the last of some bytes in two's complement follows from the others.
func redundant(text []byte) bool {
	last := len(text) - 1
	if last == 0 {
		return false
	}
	return text[last] == 0 && int8(text[last-1]) >= 0 || text[last] == 0xff && int8(text[last-1]) < 0
}

// Decode sets the sum to the one that src begins with, and returns the bytes behind it. It takes no
// other bytes than Append makes. Errors: ErrEncoding.
func (s *Sum) Decode(src []byte) (rest []byte, err error) {
	length := 0
	if len(src) > 0 {
		length = map[byte]int{formOne: 1 + numberBytes, formTwo: 1 + 2*numberBytes, formLarge: largeHeader}[src[0]]
	}
	if length == 0 || len(src) < length {
		return nil, ErrEncoding
	}
	if src[0] == formLarge {
		return s.decodeLarge(src)
	}
	number := func(at int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(src[at:])) }
	*s = Sum{negated: -number(1)}
	if src[0] == formOne {
		if math.IsNaN(s.negated) && math.Float64bits(number(1)) != math.Float64bits(math.NaN()) {
			return nil, ErrEncoding
		}
		return src[length:], nil
	}
	s.rest = number(1 + numberBytes)
	if first := -s.negated; special(first) || s.rest == 0 || first+s.rest != first {
		return nil, ErrEncoding
	}
	return src[length:], nil
}

func (s *Sum) decodeLarge(src []byte) (rest []byte, err error) {
	from, length := int(binary.LittleEndian.Uint16(src[1:])), int(binary.LittleEndian.Uint16(src[3:]))
	src = src[largeHeader:]
	if length == 0 || length > len(src) || from+length > largeBytesMax {
		return nil, ErrEncoding
	}
	text := src[:length]
	if text[0] == 0 || redundant(text) {
		return nil, ErrEncoding
	}
	var all [LargeBytes]byte
	copy(all[from:], text)
	if text[length-1]&0x80 != 0 {
		for i := from + length; i < len(all); i++ {
			all[i] = 0xff
		}
	}
	l := &large{}
	for i := range l {
		l[i] = binary.LittleEndian.Uint64(all[8*i:])
	}
	if _, _, ok := l.numbers(); ok {
		return nil, ErrEncoding
	}
	*s = Sum{large: l}
	return src[length:], nil
}
