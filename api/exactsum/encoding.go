package exactsum

import (
	"encoding/binary"
	"errors"
)

// The encoding of a sum is a header of three bytes, little-endian: from its lowest bit on, 5 bits of flags, 9 of
// the number of bytes left out below, and 9 of the number of bytes that follow. These are the sum in two's
// complement, the lowest first, without zeros below and without more than one bit of the sign above. A sum of 0 has none.
const (
	headerBytes = 3
	flagBits    = 5
	numberBits  = 9
	numberMask  = 1<<numberBits - 1
	// mergedBytes are above the highest byte that is decoded, so that there is room to merge 2^32 sums.
	mergedBytes = 4
	bytesAll    = 8*wordsAll - mergedBytes
	// EncodedBytesMax is the longest encoding.
	EncodedBytesMax = headerBytes + bytesAll
)

// ErrEncoding is the error of bytes that are no sum.
var ErrEncoding = errors.New("not the encoding of a sum")

// Append appends the encoding of the sum.
func (s *Sum) Append(dst []byte) []byte {
	var all [8 * wordsAll]byte
	from := 0
	text := all[:]
	if s.large != nil {
		for i, word := range s.large {
			binary.LittleEndian.PutUint64(all[8*i:], word)
		}
	} else {
		from, text = 8*smallFrom, all[:8*smallWords]
		for i, word := range s.small {
			binary.LittleEndian.PutUint64(all[8*i:], word)
		}
	}
	for len(text) > 0 && redundant(text) {
		text = text[:len(text)-1]
	}
	for len(text) > 0 && text[0] == 0 {
		from, text = from+1, text[1:]
	}
	if len(text) == 0 {
		from = 0
	}
	header := uint32(s.flags) | uint32(from)<<flagBits | uint32(len(text))<<(flagBits+numberBits)
	return append(append(dst, byte(header), byte(header>>8), byte(header>>16)), text...)
}

// redundant reports whether the last of some bytes in two's complement follows from the others.
func redundant(text []byte) bool {
	last := len(text) - 1
	switch text[last] {
	case 0:
		return last == 0 || int8(text[last-1]) >= 0
	case 0xff:
		return last > 0 && int8(text[last-1]) < 0
	}
	return false
}

// Decode sets the sum to the one that src begins with, and returns the bytes behind it. It takes no
// other bytes than Append makes. Errors: ErrEncoding.
func (s *Sum) Decode(src []byte) (rest []byte, err error) {
	if len(src) < headerBytes {
		return nil, ErrEncoding
	}
	header := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
	flags := uint8(header & (1<<flagBits - 1))
	from, length := int(header>>flagBits&numberMask), int(header>>(flagBits+numberBits))
	src = src[headerBytes:]
	if length > len(src) || from+length > bytesAll {
		return nil, ErrEncoding
	}
	text := src[:length]
	switch {
	case length == 0 && from != 0:
		return nil, ErrEncoding
	case length > 0 && (text[0] == 0 || redundant(text) || flags&flagOther == 0):
		return nil, ErrEncoding
	case flags&(flagNaN|flagPositive|flagNegative) != 0 && flags&flagOther == 0:
		return nil, ErrEncoding
	}
	*s = Sum{flags: flags}
	s.fill(text, from)
	return src[length:], nil
}

// fill sets the words of an empty sum to bytes in two's complement, from one on.
func (s *Sum) fill(text []byte, from int) {
	if len(text) == 0 {
		return
	}
	const smallFirst, smallEnd = 8 * smallFrom, 8*(smallFrom+smallWords) - mergedBytes
	words, first := s.small[:], smallFirst
	if from < smallFirst || from+len(text) > smallEnd {
		s.large = new([wordsAll]uint64)
		words, first = s.large[:], 0
	}
	var all [8 * wordsAll]byte
	end := from - first + copy(all[from-first:], text)
	if text[len(text)-1]&0x80 != 0 {
		for ; end < 8*len(words); end++ {
			all[end] = 0xff
		}
	}
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(all[8*i:])
	}
}
