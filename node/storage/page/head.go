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

// known gives the head of a series, or nil when there is no memory for it yet.
func (s *Set) known(id uint32) *head {
	if index := int(id / headsPerChunk); index < len(s.heads.chunks) {
		if chunk := s.heads.chunks[index]; int(id%headsPerChunk) < len(chunk) {
			return &chunk[id%headsPerChunk]
		}
	}
	return nil
}

// head gives the head of a series.
func (s *Set) head(id uint32) *head {
	if h := s.known(id); h != nil {
		return h
	}
	s.heads.cover(int(id), 1)
	return s.known(id)
}
