package split

import (
	"encoding/binary"
	"math/bits"
)

// Odd constants with no pattern: the digits of pi, as in wyhash and Blowfish.
const (
	hashA = 0x243f6a8885a308d3
	hashB = 0x13198a2e03707344
	hashC = 0xa4093822299f31d1
)

// hashText mixes b into h. It is a hash for tables that compare what they find;
// it is seeded, so nobody outside can choose texts that collide.
func hashText(h uint64, b []byte) uint64 {
	n := len(b)
	h ^= uint64(n) * hashC
	for len(b) > 8 {
		h = fold(h^binary.LittleEndian.Uint64(b), hashA)
		b = b[8:]
	}
	var last uint64
	switch {
	case len(b) == 8:
		last = binary.LittleEndian.Uint64(b)
	case len(b) >= 4:
		last = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))<<32
	case len(b) > 0:
		last = uint64(b[0]) | uint64(b[len(b)/2])<<8 | uint64(b[len(b)-1])<<16
	}
	return fold(h^last, hashB)
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
