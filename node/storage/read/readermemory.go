package read

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// readerMemory is what a Reader copies and decodes into. A scan of few samples would
// take longer to make it than to read.
type readerMemory struct {
	hot      page.Hot
	payload  []byte
	chain    []chainPage
	payloads []byte
	overlay  codec.Points // what is not in segments: sorted, unique
	decoder  codec.BlockReader
	cluster  cluster
	merged   codec.Points
	scratch  codec.Points
	order    []int32
	windows  windower
	cursors  []*segment.Cursor // of segments, by number in a version; nil: not used yet
	spare    []*segment.Cursor // that are of no segment
	active   []cursorState
	likely   likelySegments
	heads    []Head // of a Last, as are the following
	points   []lastPoint
	keys     []byte
}

// leaveSegments lets go of the segments that were read, and makes room for as many as there are now.
func (m *readerMemory) leaveSegments(now int) {
	for i, c := range m.cursors {
		if c != nil && len(m.spare) < cursorsKept {
			c.Forget()
			m.spare = append(m.spare, c)
		}
		m.cursors[i] = nil
	}
	m.cursors = slices.Grow(m.cursors[:0], now)[:now]
	clear(m.active[:cap(m.active)])
	m.active = m.active[:0]
	m.likely.known = false
}

// cursorsKept bounds the cursors that one reader leaves for the next.
const cursorsKept = 16

// readerBytesKept bounds what one reader leaves for the next.
const readerBytesKept = 1 << 20

// bytes is about what the memory takes, but for the decoder's, which holds one block.
func (m *readerMemory) bytes() int {
	samples := cap(m.overlay.Times) + cap(m.merged.Times) + cap(m.scratch.Times)
	for _, b := range m.cluster.blocks[:cap(m.cluster.blocks)] {
		samples += cap(b.points.Times)
	}
	windows := 8 * 8 * cap(m.windows.chunk.Times)
	return cap(m.heads)*24 + cap(m.points)*40 + cap(m.keys) + cap(m.payload) + cap(m.payloads) + 24*cap(m.chain) + 4*cap(m.order) + 16*samples + windows
}
