package index

import (
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
)

// sealBlock is how many bytes of a mapping have a sum of their own, of 4 bytes of memory.
const sealBlock = 1 << 9

// seal has the sums of mapped bytes, taken when these were known to be whole. The kernel may read them from
// the disk again at any time, so whoever reads them checks the blocks that it has read, before it uses what it
// found. A search checks where it has ended alone: that is right if its neighbours are on the right sides.
type seal struct {
	bytes []byte
	sums  []uint32
}

func newSeal(bytes []byte) *seal {
	s := &seal{bytes: bytes, sums: make([]uint32, (len(bytes)+sealBlock-1)/sealBlock)}
	for n := range s.sums {
		s.sums[n] = crc32.Checksum(s.block(n), castagnoli)
	}
	return s
}

func (s *seal) block(n int) []byte { return s.bytes[n*sealBlock : min((n+1)*sealBlock, len(s.bytes))] }

// intact reports whether the bytes from one place to another (excluded) are as they were.
func (s *seal) intact(from, to int) bool {
	if from < 0 || to > len(s.bytes) {
		return false
	}
	for n := from / sealBlock; n*sealBlock < to; n++ {
		if crc32.Checksum(s.block(n), castagnoli) != s.sums[n] {
			return false
		}
	}
	return true
}

func (s *seal) whole() bool { return s.intact(0, len(s.bytes)) }

// memory returns the bytes of the sums.
func (s *seal) memory() int64 { return int64(len(s.sums)) * 4 }

// checked is the run of blocks of a seal that one reader has found intact. The zero value is for memory, which
// needs no check.
type checked struct {
	seal   *seal
	lo, hi int // blocks, hi excluded
}

// errRotten is what the reader of a part panics with that is not what it was: see partList.read.
type errRotten struct{ seal *seal }

func (errRotten) Error() string { return "mapped bytes are not what they were" }

// cut checks what was cut off the start of b, of which rest is left. Both reach as far as the sealed bytes can.
func (c *checked) cut(b, rest []byte) {
	if c.seal != nil {
		c.need(c.place(b), c.place(rest))
	}
}

// place returns where b begins in the sealed bytes.
func (c *checked) place(b []byte) int { return cap(c.seal.bytes) - cap(b) }

func (c *checked) need(from, to int) {
	first, end := from/sealBlock, (to+sealBlock-1)/sealBlock
	if first >= c.lo && end <= c.hi {
		return
	}
	if first < c.lo || first > c.hi {
		c.lo, c.hi = first, first
	}
	if !c.seal.intact(c.hi*sealBlock, min(end*sealBlock, len(c.seal.bytes))) || to > len(c.seal.bytes) {
		panic(errRotten{c.seal})
	}
	c.hi = end
}

// recoverRotten is deferred where parts are read. It makes an error of what a reader meets who decodes bytes
// that are not what they were; every other panic goes on.
func recoverRotten(err *error) {
	switch r := recover().(type) {
	case nil:
	case errRotten:
		*err = r
	case runtime.Error: // an index out of range: it read before it could check
		*err = fmt.Errorf("%w: %w", errOutOfRange, r)
	default:
		if r != errDamagedPosting { //nolint:errorlint // it is what was thrown
			panic(r)
		}
		*err = errDamagedPosting
	}
}

var errOutOfRange = errors.New("a part leads out of itself")
