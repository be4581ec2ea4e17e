package index

import (
	"math/bits"
	"sync/atomic"
)

// bitSet is a set of numbers. Its readers take no lock.
type bitSet struct {
	chunks atomic.Pointer[[]*bitChunk]
	ones   atomic.Int64
}

const bitChunkBits = 64 * 64

type bitChunk [bitChunkBits / 64]atomic.Uint64

func (s *bitSet) has(n uint32) bool {
	chunks := s.chunks.Load()
	if chunks == nil || int(n/bitChunkBits) >= len(*chunks) {
		return false
	}
	c := (*chunks)[n/bitChunkBits]
	return c != nil && c[n%bitChunkBits/64].Load()&(1<<(n%64)) != 0
}

// word returns the bits of the 64 numbers from n on, a multiple of 64.
func (s *bitSet) word(n uint32) uint64 {
	chunks := s.chunks.Load()
	if chunks == nil || int(n/bitChunkBits) >= len(*chunks) {
		return 0
	}
	if c := (*chunks)[n/bitChunkBits]; c != nil {
		return c[n%bitChunkBits/64].Load()
	}
	return 0
}

// set adds a number. Changes are made by one at a time.
func (s *bitSet) set(n uint32) {
	var chunks []*bitChunk
	if of := s.chunks.Load(); of != nil {
		chunks = *of
	}
	if at := int(n / bitChunkBits); at >= len(chunks) || chunks[at] == nil {
		next := make([]*bitChunk, max(len(chunks), at+1))
		copy(next, chunks)
		next[at] = new(bitChunk)
		s.chunks.Store(&next)
		chunks = next
	}
	if bit := uint64(1) << (n % 64); chunks[n/bitChunkBits][n%bitChunkBits/64].Or(bit)&bit == 0 {
		s.ones.Add(1)
	}
}

// clear takes a number out.
func (s *bitSet) clear(n uint32) {
	if s.has(n) {
		(*s.chunks.Load())[n/bitChunkBits][n%bitChunkBits/64].And(^(uint64(1) << (n % 64)))
		s.ones.Add(-1)
	}
}

func (s *bitSet) list() []uint32 {
	list := make([]uint32, 0, s.ones.Load())
	for n, c := range s.each() {
		for i := range c {
			for w := c[i].Load(); w != 0; w &= w - 1 {
				list = append(list, uint32(n*bitChunkBits+i*64+bits.TrailingZeros64(w)))
			}
		}
	}
	return list
}

// between returns how many numbers from lo to hi (excluded) are in the set.
func (s *bitSet) between(lo, hi uint32) (n int) {
	for at := uint64(lo &^ 63); at < uint64(hi); at += 64 {
		w := s.word(uint32(at))
		if at < uint64(lo) {
			w = w >> (lo % 64) << (lo % 64)
		}
		if left := uint64(hi) - at; left < 64 {
			w &= 1<<left - 1
		}
		n += bits.OnesCount64(w)
	}
	return n
}

// each visits the chunks that there are.
func (s *bitSet) each() func(yield func(int, *bitChunk) bool) {
	return func(yield func(int, *bitChunk) bool) {
		chunks := s.chunks.Load()
		if chunks == nil {
			return
		}
		for n, c := range *chunks {
			if c != nil && !yield(n, c) {
				return
			}
		}
	}
}

// bytes returns the memory of the set.
func (s *bitSet) bytes() (bytes int64) {
	for range s.each() {
		bytes += bitChunkBits/8 + 8
	}
	return bytes
}
