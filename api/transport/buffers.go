package transport

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// Sizes of pooled buffers: powers of two. Smaller ones cost more to pool than to make,
// larger ones are rare.
const (
	bufferBitsMin = 10
	bufferBitsMax = 22
)

// Buffers is a mem.BufferPool. Other than gRPC's own it has a size for every power of
// two, and returns buffers with what was in them before: whoever takes one fills it.
type Buffers struct {
	sizes [bufferBitsMax - bufferBitsMin + 1]sync.Pool // of *[]byte
}

var _ mem.BufferPool = (*Buffers)(nil)

// Get returns a buffer of the length, with any content.
func (p *Buffers) Get(length int) *[]byte {
	at := max(bits.Len(uint(max(length, 1)-1)), bufferBitsMin) - bufferBitsMin
	if at >= len(p.sizes) {
		b := make([]byte, length)
		return &b
	}
	b, ok := p.sizes[at].Get().(*[]byte)
	if !ok {
		made := make([]byte, 1<<(at+bufferBitsMin))
		b = &made
	}
	*b = (*b)[:length]
	return b
}

// Put takes a buffer back. One that Get has not made may be kept or not.
func (p *Buffers) Put(b *[]byte) {
	size := cap(*b)
	at := bits.Len(uint(size)) - 1 - bufferBitsMin // the largest size that it has room for
	if at < 0 || at >= len(p.sizes) || size != 1<<(at+bufferBitsMin) {
		return
	}
	if invariants {
		clear((*b)[:size])
	}
	p.sizes[at].Put(b)
}
