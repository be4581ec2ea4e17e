package page

import (
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// head is what the set keeps of each series: half a cache line. PageHead.Tag is
// the epoch of the oldest sample in the page.
type head struct {
	codec.PageHead
	slot   slot
	sealed uint32 // last sealed page, or NoPage
}

const (
	headBytes     = 32
	headsPerChunk = chunkBytes / headBytes
)

// known returns the head of a series, or nil when there is no memory for it yet.
func (s *Set) known(id uint32) *head {
	if index := int(id / headsPerChunk); index < len(s.heads.chunks) {
		if chunk := s.heads.chunks[index]; int(id%headsPerChunk) < len(chunk) {
			return &chunk[id%headsPerChunk]
		}
	}
	return nil
}

// head returns the head of a series.
func (s *Set) head(id uint32) *head {
	if h := s.known(id); h != nil {
		return h
	}
	s.heads.cover(int(id), 1, s.arena)
	return s.known(id)
}

// WarmMax is how many series Warm can handle well in one call.
const WarmMax = 64

// Warm loads the memory that Append will touch for the series into the
// processor's caches. A writer of many series that calls it every WarmMax
// samples waits for that memory once and not for each sample. It changes
// nothing.
func (s *Set) Warm(ids []uint32) {
	// The loads of each loop are independent of each other, so they overlap.
	var sum uint32
	for _, id := range ids {
		if h := s.known(id); h != nil {
			sum += uint32(h.slot)
		}
	}
	for _, id := range ids {
		if h := s.known(id); h != nil && !h.slot.empty() {
			page := s.slabs[h.slot.class()].page(h.slot.number())
			sum += uint32(page[min(h.Bytes(), len(page))-1])
		}
	}
	s.warmed = sum
}
