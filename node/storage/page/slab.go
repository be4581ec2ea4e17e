package page

import (
	"encoding/binary"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// classes of pages: 32, 64 and 128 bytes.
const classes = 3

// slot names a page: bits 0–1 hold its class + 1, bits 4–31 its number in the
// slab of that class. Bits 2 and 3 are flags of the head that has the page and
// may be set without one.
type slot uint32

const (
	slotClass  slot = 3
	slotFirst  slot = 1 << 2 // the page is its series' first in this process
	slotScaled slot = 1 << 3 // a sample came with the page's own scale
	slotFlags       = slotFirst | slotScaled
	slotShift       = 4

	slabPagesMax = 1 << (32 - slotShift)
)

func (s slot) empty() bool    { return s&slotClass == 0 }
func (s slot) class() uint32  { return uint32(s&slotClass) - 1 }
func (s slot) number() uint32 { return uint32(s >> slotShift) }

// slab holds pages of one class. A free page's first four bytes hold the number
// of the next one plus one.
type slab struct {
	memory chunked[byte]
	used   uint32 // numbers given out so far
	free   uint32 // first free page's number plus one
	live   uint32 // pages in use
	class  uint32
}

func (s *slab) page(number uint32) []byte {
	shift := chunkShift - s.class // log2 of the pages in a chunk
	size := uint32(codec.PageBytesMin) << s.class
	at := number & (1<<shift - 1) * size
	return s.memory.chunks[number>>shift][at : at+size : at+size]
}

// take returns a zeroed page; ok is false when there may be no more pages.
func (s *slab) take(arena *Arena) (number uint32, ok bool) {
	if s.free != 0 {
		number = s.free - 1
		page := s.page(number)
		s.free = binary.LittleEndian.Uint32(page)
		clear(page)
	} else {
		if s.used == slabPagesMax {
			return 0, false
		}
		number = s.used
		size := codec.PageBytesMin << s.class
		s.memory.cover(int(number)*size, size, arena)
		s.used++
	}
	s.live++
	return number, true
}

// release frees a page. A slab of some size that becomes empty, as after sealing
// everything, releases its memory.
func (s *slab) release(number uint32, arena *Arena) {
	s.live--
	if s.live == 0 && len(s.memory.chunks) > 1 {
		s.memory.release(arena)
		s.used, s.free = 0, 0
		return
	}
	binary.LittleEndian.PutUint32(s.page(number), s.free)
	s.free = number + 1
}
