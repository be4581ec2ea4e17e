package manifest

import (
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// sequenceBits is how many sequences of segments a generation of the page log has.
// The first is that of its flush; the others are for what is installed while the
// next generation is being written.
const sequenceBits = 20

// SequenceOf returns the sequence of the segments that a generation becomes.
func SequenceOf(generation uint32) uint64 { return uint64(generation) << sequenceBits }

// LowWater describes where the present replica of a shard begins. What lies below it is of
// one that was dropped or replaced, and does not count any more, though it is
// deleted only when the files that it shares with other shards are written anew.
type LowWater struct {
	Generation  uint32 `json:"generation"` // pages of older generations, and those of this one
	Offset      uint32 `json:"offset"`     // before the offset, do not count,
	Sequence    uint64 `json:"sequence"`   // nor what segments have whose highest sequence is lower,
	LogPosition uint64 `json:"logPosition"`
	Number      uint64 `json:"number"` // of replacements of the shard so far
	Dropped     bool   `json:"dropped,omitempty"`
}

// HidesPage reports whether a page at a position lies below the mark.
func (f *LowWater) HidesPage(generation, offset uint32) bool {
	return generation < f.Generation || generation == f.Generation && offset < f.Offset
}

// hidesSegment reports whether a segment lies below the mark.
func (f *LowWater) hidesSegment(sequenceHigh uint64) bool { return sequenceHigh < f.Sequence }

// HidesRef is HidesPage while the page log is opened, when it is known which
// generation a slot belongs to.
func (f *LowWater) HidesRef(generations *[pagelog.Slots]uint32, ref pagelog.Ref) bool {
	return f.HidesPage(generations[ref.Slot()], ref.Offset())
}

// SlotGenerations returns the number of the live generation of each slot.
func SlotGenerations(state *pagelog.State) *[pagelog.Slots]uint32 {
	var numbers [pagelog.Slots]uint32
	for _, g := range state.Generations {
		numbers[g.Number%pagelog.Slots] = g.Number
	}
	return &numbers
}

// HiddenBytes returns the bytes of a segment that do not count any more.
func (v *Version) HiddenBytes(r *segment.Reader) (bytes int64) {
	for _, info := range r.Shards() {
		if v.Hides(r.Meta(), info.Shard) {
			bytes += info.Bytes
		}
	}
	return bytes
}
