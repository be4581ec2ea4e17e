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
// other chunks are absent (nil) or full size. T has no pointers: its memory is
// not the collector's when it comes from an Arena.
type chunked[T any] struct {
	chunks [][]T
}

func perChunk[T any]() int {
	var element T
	return chunkBytes / int(unsafe.Sizeof(element))
}

// cover makes sure that the count elements from at are there. They must not
// straddle chunks. A nil arena stands for the Go heap.
func (c *chunked[T]) cover(at, count int, arena *Arena) {
	full := perChunk[T]()
	index, end := at/full, at%full+count
	for index >= len(c.chunks) {
		c.chunks = append(c.chunks, nil)
	}
	have := c.chunks[index]
	if end <= len(have) {
		return
	}
	length := full
	if index == 0 {
		length = max(len(have), chunkBytesMin*full/chunkBytes)
		for length < end {
			length *= 2
		}
	}
	var grown []T
	if length == full && arena != nil {
		chunk := arena.take() // page-aligned, or from the heap and so 8-aligned
		grown = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(chunk))), full)
	} else {
		grown = make([]T, length)
	}
	copy(grown, have)
	c.chunks[index] = grown
}

// drop returns a full chunk to the arena.
func (c *chunked[T]) drop(index int, arena *Arena) {
	if arena != nil {
		arena.give(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.chunks[index]))), chunkBytes))
	}
	c.chunks[index] = nil
}

// release returns full chunks to the arena.
func (c *chunked[T]) release(arena *Arena) {
	if arena != nil {
		for _, chunk := range c.chunks {
			if len(chunk) == perChunk[T]() {
				arena.give(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(chunk))), chunkBytes))
			}
		}
	}
	c.chunks = nil
}

// bytes returns the memory held, the table of chunks included.
func (c *chunked[T]) bytes() int {
	n := cap(c.chunks) * int(unsafe.Sizeof([]T(nil)))
	for _, chunk := range c.chunks {
		n += len(chunk) * chunkBytes / perChunk[T]()
	}
	return n
}
