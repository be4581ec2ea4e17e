package manifest

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Visibility describes what of segments and page log counts. It is immutable: a change makes another one.
//
//   - Pages of generations before GenerationOldest do not count: segments have their samples.
//   - What a shard has below its LowWater is of a replica that was dropped or replaced.
//   - What is Suppressed of a segment was brought anew by a repair.
//   - A Tombstone hides samples of some series that were written before it.
//   - What is Missing counts and cannot be read: an answer without it would look complete.
//
// What is too old is no matter of files: see package retention.
type Visibility struct {
	Tombstones       Tombstones
	Purged           map[string]uint64 // by segment: tombstones up to this number are worked into it
	LowWater         []LowWater        // by shard
	Suppressed       Suppressed
	Missing          []Missing
	GenerationOldest uint32
}

// Hides reports whether what a shard has in a segment does not count: it is of a replica
// that was dropped or replaced, or a repair has brought something else for it.
func (v *Visibility) Hides(m *segment.Meta, shard uint16) bool {
	return int(shard) < len(v.LowWater) && v.LowWater[shard].hidesSegment(m.SequenceHigh) || v.Suppressed.has(m.Name, shard)
}

// Lacks returns the error of a range of a shard that a segment which is missing may have samples in;
// nil: there is none.
func (v *Visibility) Lacks(shard uint16, within segment.TimeRange) error {
	for i := range v.Missing {
		m := &v.Missing[i].Meta
		if shard >= m.ShardLow && shard <= m.ShardHigh && m.MinMs <= within.ToMs && m.MaxMs >= within.FromMs && !v.Hides(m, shard) {
			return &DamagedError{damageOf(m, shard, v.Missing[i].reason)}
		}
	}
	return nil
}

// HiddenBytes returns the bytes of a segment that do not count any more.
func (v *Visibility) HiddenBytes(r *segment.Reader) (bytes int64) {
	for _, info := range r.Shards() {
		if v.Hides(r.Meta(), info.Shard) {
			bytes += info.Bytes
		}
	}
	return bytes
}

// Missing is a segment that could not be opened.
type Missing struct {
	Meta   segment.Meta
	reason string
}

// stillMissing returns those segments that are live.
func stillMissing(lost []Missing, live []segment.Meta) []Missing {
	if len(lost) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(lost), func(m Missing) bool { return !slices.ContainsFunc(live, SameName(&m.Meta)) })
}

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

// HighWater is a place of the page log, from which on the pages of a shard came after a snapshot of it.
type HighWater struct {
	Generation uint32 `json:"generation"`
	Offset     uint32 `json:"offset"` // as that of pagelog.Ref
}

// OfSnapshot reports whether the manifest is that of a snapshot.
func (m *Manifest) OfSnapshot() bool { return m.HighWater != nil }

// BeyondSnapshot reports whether a page of a snapshot's page log came after the snapshot. Generations are those of
// SlotGenerations.
func (m *Manifest) BeyondSnapshot(generations *[pagelog.Slots]uint32, shard uint16, ref pagelog.Ref) bool {
	if !m.OfSnapshot() {
		return false
	}
	end, generation := &m.HighWater[shard], generations[ref.Slot()]
	return generation > end.Generation || generation == end.Generation && ref.Offset() >= end.Offset
}

// Suppressed names the shards of segments that do not count any more, since a repair has
// brought others for them: by name of the segment, in order. It is never changed in
// place, so that versions and manifests may share it.
type Suppressed map[string][]uint16

func (x Suppressed) has(name string, shard uint16) bool {
	if len(x) == 0 {
		return false
	}
	_, found := slices.BinarySearch(x[name], shard)
	return found
}

// With returns a copy with one shard more of some segments.
func (x Suppressed) With(metas []segment.Meta, shard uint16) Suppressed {
	next := make(Suppressed, len(x)+len(metas))
	for name, shards := range x {
		next[name] = shards
	}
	for i := range metas {
		name := metas[i].Name
		if at, found := slices.BinarySearch(next[name], shard); !found {
			next[name] = slices.Insert(slices.Clone(next[name]), at, shard)
		}
	}
	return next
}

// Of returns those of segments that are live.
func (x Suppressed) Of(live []segment.Meta) Suppressed {
	if len(x) == 0 {
		return nil
	}
	next := Suppressed{}
	for i := range live {
		if shards := x[live[i].Name]; len(shards) > 0 {
			next[live[i].Name] = shards
		}
	}
	return next
}
