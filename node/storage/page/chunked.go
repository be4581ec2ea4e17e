package page

import "unsafe"

// chunkBytes is the unit in which memory grows. It is small because a node has
// several such memories for each of its shards.
const (
	chunkBytes = 4096
	chunkShift = 7 // log2 of chunkBytes over the smallest element, 32 bytes
)

// chunkBytesMin is the first size of chunk 0, which doubles up to chunkBytes:
// for shards with a handful of series.
const chunkBytesMin = 256

// chunked is memory that grows without moving, but for the small chunk 0. All
// other chunks are absent (nil) or full size.
type chunked[T any] struct {
	chunks [][]T
}

// cover makes sure that the count elements from at are there. They must not
// straddle chunks.
func (c *chunked[T]) cover(at, count int) {
	var element T
	size := int(unsafe.Sizeof(element))
	perChunk := chunkBytes / size
	index, end := at/perChunk, at%perChunk+count
	for index >= len(c.chunks) {
		c.chunks = append(c.chunks, nil)
	}
	have := c.chunks[index]
	if end <= len(have) {
		return
	}
	if index > 0 {
		c.chunks[index] = make([]T, perChunk)
		return
	}
	length := max(len(have), chunkBytesMin/size)
	for length < end {
		length *= 2
	}
	grown := make([]T, length)
	copy(grown, have)
	c.chunks[index] = grown
}

// bytes gives the memory held, the table of chunks included.
func (c *chunked[T]) bytes() int {
	var element T
	n := cap(c.chunks) * int(unsafe.Sizeof([]T(nil)))
	for _, chunk := range c.chunks {
		n += len(chunk) * int(unsafe.Sizeof(element))
	}
	return n
}
