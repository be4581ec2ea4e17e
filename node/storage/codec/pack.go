package codec

import "encoding/binary"

//go:generate go run ./internal/unpackgen

// unpackSlack is how far a kernel may read beyond the packed values.
const unpackSlack = 8 * 8

// packedBytes returns the length of count packed values.
func packedBytes(count int, width uint) int { return (count*int(width) + 7) / 8 }

// appendPacked appends the low width bits of each value, lowest bit first.
func appendPacked(dst []byte, values []uint64, width uint) []byte {
	if width == 0 {
		return dst
	}
	start := len(dst)
	end := start + packedBytes(len(values), width)
	dst = extend(dst, packedBytes(len(values), width)+16)
	mask := ^uint64(0) >> (64 - width)
	at, used, word := start, uint(0), uint64(0)
	for _, v := range values {
		v &= mask
		word |= v << (used & 63)
		if used += width; used >= 64 {
			binary.LittleEndian.PutUint64(dst[at:], word)
			at += 8
			used -= 64
			word = v >> (width - used) // all of v is gone when used is 0, and a shift by 64 is 0
		}
	}
	binary.LittleEndian.PutUint64(dst[at:], word)
	return dst[:end]
}

// unpack fills dst, whose length is a multiple of 8, with packed values. The
// packed values must be followed by unpackSlack bytes in src, which matter not.
func unpack(dst []int64, src []byte, width uint) {
	if width == 0 {
		clear(dst)
		return
	}
	unpackKernel(width)(dst, src)
}
